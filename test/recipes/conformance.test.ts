/** Every recipe, in a short form, trains, writes a complete run folder, and resumes bit for bit. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import * as E from 'fp-ts/lib/Either.js'
import { beforeAll, describe, expect, it } from 'vitest'
import { loadRecipe } from '../../src/cli/recipeFile.js'
import * as T from '../../src/index.js'
import { trainOptionsOf } from '../../src/run/define/choices.js'
import { parseSettings, readAssignment, settingLeaves, withSetting } from '../../src/run/parts/recipe.js'
import { useEngine } from '../kit/engine.js'
import {
  contentsOf,
  gsm8kLines,
  parseJsonLines,
  tandemOk,
  useTemporaryFolder,
  withoutSeconds,
  writeAnsweringModel,
} from '../kit/runs.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

const lines = (rows: readonly object[]): string => rows.map((row) => `${JSON.stringify(row)}\n`).join('')

const mathRows = Array.from({ length: 12 }, (_, i) => ({
  ...{ problem: `What is $${i} + 1$?`, level: 'Level 1', type: 'Algebra' },
  solution: `It is $\\boxed{${i + 1}}$.`,
}))

const ifEvalRows = Array.from({ length: 12 }, (_, i) => ({
  ...{ key: i, prompt: `Answer ${i} without commas.`, instruction_id_list: ['punctuation:no_comma'], kwargs: [{}] },
}))

/** Settings of recipes that sample completions. */
const SMALL = [
  ...['tasks.prompts=2', 'tasks.group=2', 'sampling.maxNewTokens=6', 'learner.learningRate=0.01'],
  ...['keep.evalEvery=1', 'keep.evalTasks=2', 'keep.alarms=off'],
]

/** Settings of recipes that train without sampling. */
const DATA = [
  ...['model={model}', 'batch=4', 'heldOut=4', 'learner.learningRate=0.01'],
  ...['keep.evalEvery=1', 'keep.evalTasks=2', 'keep.alarms=off'],
]

/** Settings of recipes with custom settings for rollouts. */
const PLAYED = [...SMALL.filter((text) => !text.startsWith('sampling')), 'maxNewTokens=6']

/** Settings of recipes of self-play. */
const GAMES = [
  ...SMALL.filter((text) => !text.startsWith('tasks') && !text.startsWith('sampling')),
  ...['tasks.prompts=8', 'shown=64', 'selfPlay.poolShare=0.5', 'learner.warmup=0', 'learner.schedule=constant'],
]

/**
 * The settings of each recipe's short form. A recipe without an entry fails. `{name}` is a path in
 * the folder of the tests.
 */
const SHORT_FORMS: Readonly<Record<string, readonly string[]>> = {
  wordProblems: [...SMALL, 'model={model}'],
  jsonReply: [...SMALL, 'model={model}'],
  shortSentence: [...SMALL, 'model={model}'],
  gsm8k: [...SMALL, 'model={model}', 'dataset={gsm8k.jsonl}'],
  math: [...SMALL, 'model={model}', 'dataset={math.jsonl}', 'systemPrompt=off'],
  countdown: [...SMALL, 'model={model}', 'systemPrompt=off'],
  calculator: [...SMALL, 'model={model}', 'shown=64', 'batch=16'],
  ifEval: [...SMALL, 'model={model}', 'dataset={ifEval.jsonl}'],
  calculatorAgent: [...SMALL, 'shown=64'],
  shopAgent: [...SMALL, 'shown=64'],
  numberGuessing: [...SMALL, 'shown=128', 'guesses=2'],
  game: [
    ...SMALL.filter((text) => !text.startsWith('tasks.group')),
    ...['model={model}', 'game=matrix_mp', 'tasks.group=1', 'selfPlay.poolShare=0.5', 'learner.warmup=0'],
  ],
  kuhnPoker: [...GAMES, 'selfPlay.magnetEvery=2'],
  ticTacToe: GAMES,
  reverseText: [...SMALL, 'shown=128'],
  sft: DATA,
  dpo: DATA,
  reward: DATA,
  ppo: [...PLAYED, 'model={model}'],
  distill: [...PLAYED, 'model={model}', 'teacher={model}'],
  captured: [...SMALL, 'model={model}'],
}

const names = readdirSync('recipes').map((file) => file.replace(/\.ts$/, ''))

beforeAll(async () => {
  await writeAnsweringModel(path('model'))
  writeFileSync(path('gsm8k.jsonl'), gsm8kLines(12))
  writeFileSync(path('math.jsonl'), lines(mathRows))
  writeFileSync(path('ifEval.jsonl'), lines(ifEvalRows))
})

const shortForm = (name: string): readonly string[] =>
  (SHORT_FORMS[name] ?? []).map((text) => text.replace(/\{(.+)\}/, (_, file: string) => path(file)))

const rightOf = <T>(either: E.Either<{ readonly reason: string }, T>): T => {
  if (E.isLeft(either)) throw new Error(either.left.reason)
  return either.right
}

/** Trains a recipe up to a step, in a new folder or resuming a run. */
const trained = async (name: string, folder: string, steps: number): Promise<readonly T.RunEvent[]> => {
  const { recipe } = await loadRecipe(name)
  const given = [...shortForm(name), `steps=${steps}`]
    .map((text) => rightOf(readAssignment(recipe, text)))
    .reduce<Readonly<Record<string, unknown>>>((all, [at, value]) => withSetting(all, at, value), {})
  const settings = rightOf(parseSettings(recipe, given))
  const options = trainOptionsOf(settings as Parameters<typeof trainOptionsOf>[0]) // every recipe has steps and keep
  const events: T.RunEvent[] = []
  const store = T.runFolder(path(folder))
  for await (const event of T.train(await recipe.build(settings, {}), { ...options, store })) events.push(event)
  return events
}

/** Returns everything a run has saved after its second step, without times. */
const remains = (folder: string) => {
  const text = (file: string): string => readFileSync(path(`${folder}/${file}`), 'utf8')
  const files = contentsOf(path(`${folder}/checkpoints/step-000002`))
  return {
    weights: files['model.safetensors'],
    optimizer: files['optimizer.safetensors'],
    trajectories: text('trajectories.jsonl'),
    metrics: withoutSeconds(parseJsonLines(text('metrics.jsonl'))),
  }
}

describe('recipes', () => {
  it('all have a short form here', () => {
    expect(Object.keys(SHORT_FORMS).sort()).toEqual([...names].sort())
  })

  it('are all in the table of the guide', () => {
    const rows = readFileSync('docs/guide/04-recipes.md', 'utf8').matchAll(/^\| `(\w+)` \|/gm)
    expect(Array.from(rows, ([, name]) => name).sort()).toEqual([...names].sort())
  })

  it.each(names)('%s: is one page, named as its file', async (name) => {
    expect(readFileSync(`recipes/${name}.ts`, 'utf8').split('\n').length).toBeLessThanOrEqual(100)
    const { recipe } = await loadRecipe(name)
    expect(recipe.name).toBe(name)
    const undescribed = settingLeaves(recipe.settings).filter(({ description }) => description === '')
    expect(undescribed.map((leaf) => leaf.path.join('.'))).toEqual([])
  })

  it.each(names)('%s: trains, stops, and resumes to the same end, bit for bit', async (name) => {
    await trained(name, `${name}-whole`, 2)
    await trained(name, `${name}-parts`, 1)
    const rest = await trained(name, `${name}-parts`, 2)
    expect(rest.flatMap((event) => (event.type === 'step' ? [event.step] : []))).toEqual([2])
    expect(remains(`${name}-parts`)).toEqual(remains(`${name}-whole`))
    for (const file of ['config.json', 'summary.json', 'report.html', 'trajectories.jsonl'])
      expect(existsSync(path(`${name}-whole/${file}`)), file).toBe(true)
  })

  it('run through the command, which writes the recipe and its settings into the folder', async () => {
    const flags = shortForm('gsm8k').flatMap((text) => ['--set', text])
    await tandemOk(['train', 'gsm8k', ...flags, '--steps', '1', '--out', path('command'), '--threads', '1'], {
      cwd: path(''),
    })
    const { stdout } = await tandemOk(['train', '--resume', path('command'), '--steps', '2', '--threads', '1'], {
      cwd: path(''),
    })
    expect(stdout).toMatch(/^step 2 {2}reward/m)
    const config: unknown = JSON.parse(readFileSync(path('command/config.json'), 'utf8'))
    expect(config).toMatchObject({ recipe: { name: 'gsm8k', file: null }, settings: { tasks: { prompts: 2 } } })
  })
})
