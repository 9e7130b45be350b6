"""The connection to a gateway that the command line and the editors share."""
