"""The version of the program. Modules read it here, since the package itself imports its functions on demand."""

VERSION = "0.2.0"
