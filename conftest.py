"""What holds for all tests: none is timed, a busy machine proves nothing."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
