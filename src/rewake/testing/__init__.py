"""What tests of Rewake, and of programs built on it, can use: the strict provider double and suites."""
