"""Users' regular expressions, in the syntax of java.util.regex, matched with bounded effort.

Input: a pattern and texts. Output: which texts match, what a match covers, texts with matches replaced. Start at `matching`;
`java_syntax` translates patterns.
"""
