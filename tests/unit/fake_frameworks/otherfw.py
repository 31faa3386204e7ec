"""A second distribution of the same framework, judged for itself."""


class Graph:
    def stream(self, x):
        return ("stream", x)
