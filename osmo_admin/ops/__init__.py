"""Operations: the data directory, embedded servers, and the supervisor of all processes. No Django inside."""
