import { keyFromSeed, orThrow, rowFailure } from '@tandem-rl/base'
import { anyKey } from '@tandem-rl/testing'
import type { Task } from '@tandem-rl/text'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { endlessTasks, rowList, shuffled, type TaskSource, taskList } from '../../src/data/task.js'

const task = (id: string): Task => ({ id, query: `query of ${id}`, answer: `answer of ${id}` })

const listOf = (size: number): TaskSource =>
  taskList(
    'numbers',
    Array.from({ length: size }, (_, i) => task(`${i}`)),
  )

const ids = (source: TaskSource, start: number, count: number): readonly string[] =>
  Array.from({ length: count }, (_, i) => orThrow(source.at(start + i)).id)

const sizes = fc.integer({ min: 1, max: 20 })
const notAnIndex = [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]

describe('taskList', () => {
  it('takes rows without an id and an answer, and keeps their other fields', () => {
    const source = taskList('sums', [
      { query: '2 + 2?', answer: '4', level: 1 },
      { query: '3 + 3?', level: 2 },
    ])
    const task = orThrow(source.at(1))
    const level: number = task.level
    expect([task, level]).toEqual([{ id: 'sums-1', query: '3 + 3?', answer: '', level: 2 }, 2])
  })

  it('refuses rows from plain JavaScript whose fields are not strings, with their numbers', () => {
    const rows = [{ query: 'a' }, { question: 'b' }, { query: 'c', answer: 4 }]
    expect(() => taskList('sums', rows as never)).toThrow(
      "taskList: source 'sums': row 2: query must be a string, got undefined; row 3: answer must be a string, got number",
    )
  })

  it('gives its rows in order and starts again after the last one', () => {
    const law = fc.property(sizes, fc.nat(1000), (size, index) => {
      const source = listOf(size)
      expect(source.size).toBe(size)
      expect(source.at(index)).toEqual(E.right(task(`${index % size}`)))
    })
    fc.assert(law)
  })

  it('refuses to have no rows, and names itself', () => {
    expect(() => taskList('empty set', [])).toThrow(new RangeError("taskList: source 'empty set' has no rows"))
  })
})

describe('rowList', () => {
  it('takes rows of any columns, with their own ids as text, and starts again after the last', () => {
    const source = rowList('ids', [
      { id: 3, input_ids: [1] },
      { id: 'b', input_ids: [2, 3] },
    ])
    const first = orThrow(source.at(2))
    const numbers: readonly number[] = first.input_ids
    expect([first, numbers, source.size]).toEqual([{ id: '3', input_ids: [1] }, [1], 2])
    expect(orThrow(rowList('plain', [{ n: 1 }, { n: 2 }]).at(1))).toEqual({ id: 'plain-1', n: 2 })
  })

  it('refuses no rows, what is not a record, and ids that are neither texts nor numbers', () => {
    expect(() => rowList('none', [])).toThrow("rowList: source 'none' has no rows")
    expect(() => rowList('lists', [[1, 2]])).toThrow("rowList: source 'lists': row 1 must be a record")
    expect(() => rowList('ids', [{ id: null }])).toThrow('the id of row 1 must be a string or a number, got object')
  })
})

describe('endlessTasks', () => {
  it('has a task at every index, made from the index alone', () => {
    const source = endlessTasks('made', (index) => task(`made-${index}`))
    expect(source.size).toBe('endless')
    expect(ids(source, 10 ** 12, 2)).toEqual(['made-1000000000000', 'made-1000000000001'])
  })
})

describe('shuffled', () => {
  it('every epoch has every row once', () => {
    const law = fc.property(sizes, anyKey, fc.nat(5), (size, key, epoch) => {
      const drawn = ids(shuffled(listOf(size), key), epoch * size, size)
      expect([...drawn].sort()).toEqual([...ids(listOf(size), 0, size)].sort())
    })
    fc.assert(law)
  })

  it('what was asked before does not matter: a run that resumes at an index sees the same tasks', () => {
    const law = fc.property(sizes, anyKey, fc.array(fc.nat(100), { maxLength: 10 }), (size, key, asked) => {
      const source = shuffled(listOf(size), key)
      for (const index of asked) source.at(index)
      expect(ids(source, 17, 5)).toEqual(ids(shuffled(listOf(size), key), 17, 5))
    })
    fc.assert(law)
  })

  it('epochs have different orders, and so have different keys', () => {
    const source = shuffled(listOf(50), keyFromSeed(1))
    expect(ids(source, 0, 50)).not.toEqual(ids(source, 50, 50))
    expect(ids(source, 0, 50)).not.toEqual(ids(shuffled(listOf(50), keyFromSeed(2)), 0, 50))
    expect(ids(source, 0, 50)).not.toEqual(ids(listOf(50), 0, 50))
  })

  it('keeps name and size, and returns an endless source as it is', () => {
    expect(shuffled(listOf(3), keyFromSeed(0))).toMatchObject({ name: 'numbers', size: 3 })
    const endless = endlessTasks('made', (index) => task(`${index}`))
    expect(shuffled(endless, keyFromSeed(0))).toBe(endless)
  })

  it('hands on the failure of a row', () => {
    const failure = rowFailure('broken', { first: { row: 1, reason: 'no answer' } })
    const broken: TaskSource = { name: 'broken', size: 1, at: () => E.left(failure) }
    expect(shuffled(broken, keyFromSeed(0)).at(4)).toEqual(E.left(failure))
  })
})

describe('an index', () => {
  it.each(notAnIndex)('%d is refused by every kind of source, naming the source', (index) => {
    const sources = [listOf(2), endlessTasks('numbers', () => task('x')), shuffled(listOf(2), keyFromSeed(0))]
    for (const source of sources) {
      expect(() => source.at(index)).toThrow(
        new RangeError(`numbers: task index must be a non-negative integer, got ${index}`),
      )
    }
  })
})
