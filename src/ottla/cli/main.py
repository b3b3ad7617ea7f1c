"""`ottla`: the entry point."""


def main() -> None:
    print("ottla")
