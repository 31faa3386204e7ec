"""What the others inherit."""


class Root:
    def inherited(self, x):
        return ("inherited", x)

    @classmethod
    def inherited_class(cls, x):
        return (cls.__name__, x)
