"""Tests of a broker through its clients; they need Java (`-m clients`)."""
