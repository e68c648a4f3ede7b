"""The conformance suite's machinery: see ../README.md."""
