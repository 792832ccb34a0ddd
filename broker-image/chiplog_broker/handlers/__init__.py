"""The handlers of the APIs: one module for each group of related APIs, and a table of all."""
