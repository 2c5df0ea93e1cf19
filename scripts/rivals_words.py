"""Figures as text, and what is computed of them, for the tables of rivals.py."""


def number(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}"


def ms(value):
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def jain(shares):
    """Jain's index of shares over weights: 1 is fair, 1/n is one that has all."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else None
