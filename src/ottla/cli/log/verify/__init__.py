"""`ottla log verify`: reads everything, says what is damaged, and repairs what it is told to."""
