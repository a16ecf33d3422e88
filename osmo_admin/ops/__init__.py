"""Operations without Django: the data directory, embedded servers, and the supervisor of all processes."""
