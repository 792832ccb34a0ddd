"""Tests of the custom resource definitions on a real API server."""
