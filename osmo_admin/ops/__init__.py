"""Running the house: data directory, embedded servers, the processes and who stops them. No Django inside."""
