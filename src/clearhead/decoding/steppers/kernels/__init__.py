"""Compiled products: a matrix enters, a function that multiplies with it leaves. Importing a file compiles it."""
