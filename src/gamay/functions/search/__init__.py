"""Full-text search as in Lucene: words (`words`), queries (`query`), their syntax (`syntax`), and matching (`match`)."""
