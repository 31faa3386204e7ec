"""What happens when this process forks, exits or gets a signal. Private."""
