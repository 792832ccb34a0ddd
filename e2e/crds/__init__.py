"""The custom resources, judged by a real API server."""
