"""One module an API, all its versions; `ls` is the table of APIs."""
