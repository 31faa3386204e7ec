"""One operation from its call to its end. Knows no framework. Private as a whole."""
