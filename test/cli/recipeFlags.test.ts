/** Settings from the command line. */
import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { givenSettings, recipeFlags } from '../../src/cli/recipeFlags.js'
import { defineRecipe } from '../../src/run/define/defineRecipe.js'
import { rowSettings } from '../../src/run/parts/tasks.js'

const recipe = defineRecipe({
  name: 'rows',
  summary: 'Reads rows.',
  settings: z.strictObject(
    rowSettings({ rows: 'rows', from: 'openai/gsm8k', columns: { query: 'question', answer: 'answer' } }),
  ),
  build: () => {
    throw new Error('nothing is built here')
  },
})

describe('givenSettings', () => {
  it.each([
    ['rows.jsonl', resolve('rows.jsonl')],
    ['data/rows.jsonl', resolve('data/rows.jsonl')], // a file that is missing, not a repository of the hub
    ['test/kit', resolve('test/kit')], // it exists
    ['openai/gsm8k', 'openai/gsm8k'],
    ['openai/gsm8k/main/train', 'openai/gsm8k/main/train'],
    ['hub:owner/rows/list.json', 'hub:owner/rows/list.json'],
  ])('resolves the data set %s to %s', async (given, expected) => {
    expect(await givenSettings(recipe, { dataset: given })).toEqual({ dataset: expected })
    expect(await givenSettings(recipe, { set: [`evalDataset=${given}`] })).toEqual({ evalDataset: expected })
  })

  it('has a flag for the column of each field', async () => {
    const flags = recipeFlags(recipe).map(({ option }) => option.long)
    expect(flags).toEqual(['--dataset', '--eval-dataset', '--query-column', '--answer-column'])
    expect(await givenSettings(recipe, { queryColumn: 'problem' })).toEqual({ columns: { query: 'problem' } })
  })
})
