import { describeIssues, orThrow } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { GSM8K } from '../../../src/data/datasets/gsm8k.js'
import { type DatasetFormat, ROWS, tasksOfRows, withColumns } from '../../../src/data/datasets/rows.js'

const taskOf = <Row, T extends Task>(format: DatasetFormat<Row, T>, row: unknown): T =>
  orThrow(orThrow(tasksOfRows('rows', [format.schema.parse(row)], format)).at(0))

const problem = (format: DatasetFormat<never, Task>, row: unknown): string => {
  const parsed = format.schema.safeParse(row)
  if (parsed.success) throw new Error('the row was accepted')
  return describeIssues(parsed.error, row)
}

describe('ROWS', () => {
  it('keeps every column of a row, and reads answers that are numbers or truth values as text', () => {
    const row = { query: '2 + 2?', answer: 4, level: 'easy', ids: [1, 2] }
    expect(taskOf(ROWS, row)).toEqual({ id: 'rows-0', query: '2 + 2?', answer: '4', row: { ...row, answer: '4' } })
    expect(taskOf(ROWS, { query: 'Well?', answer: true }).answer).toBe('true')
    expect(taskOf(ROWS, { query: 'Well?' }).answer).toBe('')
  })

  it.each([
    [{ answer: '4' }, /^query: /],
    [{ query: ' ' }, 'query: must not be empty'],
    [{ query: 'a', answer: { b: 1 } }, /^answer: /],
    [7, /expected object/i],
  ])('refuses %j', (row, reason) => {
    expect(problem(ROWS as never, row)).toMatch(reason)
  })
})

describe('withColumns', () => {
  it('reads the fields of a format from other columns', () => {
    const renamed = withColumns(GSM8K, { question: 'problem', answer: 'worked' })
    const answer = 'It is 4.\n#### 4'
    expect(taskOf(renamed, { problem: '2 + 2?', worked: answer, answer: 'another' })).toEqual(
      taskOf(GSM8K, { question: '2 + 2?', answer }),
    )
    expect(taskOf(withColumns(ROWS, { query: 'problem' }), { problem: 'a', answer: 'b', level: 3 }).row).toEqual({
      ...{ problem: 'a', query: 'a', answer: 'b', level: 3 },
    })
  })

  it('changes nothing where every field has its own column', () => {
    const same = withColumns(GSM8K, { question: 'question', answer: 'answer' })
    for (const row of [{ question: 'a', answer: '#### 1' }, { question: 'a', answer: '1' }, {}, [], null])
      expect(E.tryCatch(() => same.schema.parse(row), String)).toEqual(
        E.tryCatch(() => GSM8K.schema.parse(row), String),
      )
  })

  it('refuses a row without the column, and lists the columns that it has', () => {
    const renamed = withColumns(GSM8K, { question: 'problem' })
    expect(problem(renamed as never, { quest: 'a', answer: '#### 1' })).toBe(
      "missing column 'problem' for 'question': the row has quest, answer",
    )
    expect(problem(renamed as never, { problem: 'a', answer: '1' })).toMatch(/^answer: '#### ' does not occur/)
    expect(problem(renamed as never, 'text')).toMatch(/expected object/i)
    expect(problem(withColumns(GSM8K, { question: 'toString' }) as never, { answer: '#### 1' })).toMatch(
      /missing column 'toString'/,
    )
  })
})
