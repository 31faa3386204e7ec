"""A seat that only some programs import."""


def compact(x):
    return ("compact", x)
