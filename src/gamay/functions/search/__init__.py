"""Search in texts as Lucene does it: words (`words`), queries (`query`), their syntax (`syntax`), and answers (`match`)."""
