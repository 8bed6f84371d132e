"""Operations in compiled programs of frameworks, for which no Python code waits."""
