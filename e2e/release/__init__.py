"""What a release of Chiplog is made of: `make dist` builds it, the tests here install it."""
