import { describe, expect, it } from 'vitest'

import { adviceOf, type Recommended, type TableConfig } from './advice'

const NONE: Recommended = {
  ...{ invertedIndexColumns: [], rangeIndexColumns: [], jsonIndexColumns: [], textIndexColumns: [], fstIndexColumns: [] },
  ...{ bloomFilterColumns: [], compoundInvertedIndexConfigs: [], sortedColumn: null, starTreeIndexConfigs: [] },
}
const TREE = { dimensionsSplitOrder: ['kind', 'city'], functionColumnPairs: ['COUNT__*', 'SUM__n'] }
const titles = (found: Partial<Recommended>, config: TableConfig) => adviceOf({ ...NONE, ...found }, config).map((one) => one.title)

describe('advice', () => {
  it('leaves out what a config has, in whatever form', () => {
    const config = {
      tableIndexConfig: { invertedIndexColumns: ['a'], sortedColumn: ['s'] },
      fieldConfigList: [{ name: 'b', indexTypes: ['INVERTED'] }, { name: 'c', indexes: { range: {} } }],
    }
    expect(titles({ invertedIndexColumns: ['a', 'b', 'c'], rangeIndexColumns: ['c'], sortedColumn: 't' }, config)).toEqual(['Inverted index on c'])
  })

  it('leaves out trees that a tree of the config covers, and all for upserts', () => {
    const larger = { dimensionsSplitOrder: ['city', 'kind', 'x'], functionColumnPairs: ['SUM__n'] }
    expect(titles({ starTreeIndexConfigs: [TREE] }, { tableIndexConfig: { starTreeIndexConfigs: [larger] } })).toEqual([])
    expect(titles({ starTreeIndexConfigs: [TREE] }, { upsertConfig: {} })).toEqual([])
    expect(titles({ starTreeIndexConfigs: [TREE] }, {})).toEqual(['Star-tree of kind, city'])
  })

  it('leaves out a compound index whose columns have one, in whatever order', () => {
    const both = (...columns: string[]) => ({ compoundInvertedIndexConfigs: [{ columns }] })
    expect(titles(both('a', 'b'), { tableIndexConfig: both('b', 'a') })).toEqual([])
    expect(titles(both('a', 'b'), { tableIndexConfig: both('a', 'c', 'b') })).toEqual(['Compound inverted index on a, b'])
  })

  it('is added beside what is there', () => {
    const config = { fieldConfigList: [{ name: 'c', indexes: { range: {} } }], tableIndexConfig: { loadMode: 'MMAP' } }
    const compounds = [{ columns: ['c', 'd'] }]
    const found = { ...NONE, invertedIndexColumns: ['c'], compoundInvertedIndexConfigs: compounds, sortedColumn: 't', starTreeIndexConfigs: [TREE] }
    const after = adviceOf(found, config).reduce<TableConfig>((before, one) => one.apply(before), config)
    expect(after).toEqual({
      fieldConfigList: [{ name: 'c', indexes: { range: {}, inverted: {} } }],
      tableIndexConfig: { loadMode: 'MMAP', compoundInvertedIndexConfigs: compounds, sortedColumn: ['t'], starTreeIndexConfigs: [TREE] },
    })
    expect(adviceOf(found, after)).toEqual([])
  })
})
