"""What everything else stands on: messages, text, markup. Imports nothing of the course."""
