"""Regular expressions of users, in the syntax of java.util.regex, matched with bounded effort.

In: a pattern and texts. Out: which texts match, what a match covers, texts with matches replaced. Start at `matching`;
`java_syntax` translates patterns.
"""
