/** `tandem train RECIPE`: built-in recipes by name, and custom recipes in files. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { parseJsonLines, tandem, useTemporaryFolder, withoutSeconds, writeAnsweringModel } from '../kit/runs.js'

const path = useTemporaryFolder()

/** A custom task: guess the number behind a word, with hints, in two turns. */
const RECIPE = `
import * as T from 'tandem-rl'

const source = T.taskList('numbers', Array.from({ length: 20 }, (_, i) => ({ id: String(i), query: 'Guess a number.', answer: String(i % 10) })))
const game = ({ prompts, repeats, start }: T.TaskContext) =>
  T.MultiTurnEnv({
    source,
    maxTurns: 2,
    prompts,
    repeats,
    start,
    reply: ({ answer, task, turn }) => {
      const guess = Number(/\\d+/.exec(answer)?.[0] ?? Number.NaN)
      if (guess === Number(task.answer)) return { done: true, reward: 1 / turn }
      return guess < Number(task.answer) ? 'Higher.' : 'Lower.'
    },
  })

export const recipe = T.defineRecipe({
  name: 'numbers',
  summary: 'Guess numbers with hints.',
  settings: T.policySettings,
  build: async (settings, context) => {
    const model = await T.orThrow(T.loadPretrained(settings.model))
    return T.defineRun(T.grpoParts(settings, { model, env: game, heldOut: [{ env: game, measure: 'return', sharedTasks: 'allow' }] }), context)
  },
})
`

let model = ''
beforeAll(async () => {
  model = await writeAnsweringModel(path('model'))
  writeFileSync(path('numbers.ts'), RECIPE)
  writeFileSync(path('broken.ts'), 'export const recipe = {')
  writeFileSync(path('guest.ts'), "import '@tandem-rl/none'\n")
  writeFileSync(path('empty.ts'), 'export const other = 1')
  writeFileSync(path('small.yaml'), 'tasks:\n  prompts: 2\n  group: 3\nsampling:\n  maxNewTokens: 6\n')
})

const run = (...args: readonly string[]) => tandem(['train', ...args], { cwd: path('') })

/** Lines with a mistake of their own, and the line and the message of the mistake. */
const MISTAKES: Readonly<Record<string, readonly [recipe: string, line: number, message: string]>> = {
  'a misspelled function': [
    RECIPE.replace('T.defineRecipe(', 'T.defineReceipe('),
    RECIPE.split('\n').findIndex((line) => line.includes('T.defineRecipe(')) + 1,
    'TypeError: T.defineReceipe is not a function',
  ],
  'a reply that throws': [
    RECIPE.replace('const guess = Number(', 'const guess = task.guesses.at('),
    RECIPE.split('\n').findIndex((line) => line.includes('const guess')) + 1,
    "TypeError: Cannot read properties of undefined (reading 'at')",
  ],
}

describe('tandem train RECIPE', () => {
  it.each(Object.entries(MISTAKES))(
    'names the line of %s, and prints the stack with --verbose',
    async (name, mistake) => {
      const [recipe, line, message] = mistake
      const file = `mistake${Object.keys(MISTAKES).indexOf(name)}.ts`
      writeFileSync(path(file), recipe)
      const flags = ['--model', model, '--steps', '1', '--prompts', '2', '--group', '2']
      const plain = await run(`./${file}`, ...flags, '--out', path(`${file}-plain`))
      expect(plain.code).toBe(1)
      expect(plain.stderr).toContain(message)
      expect(plain.stderr).toMatch(new RegExp(`${file}:${line}:\\d+\\)`))
      expect(plain.stderr).not.toMatch(/^ {4}at |resume with/m) // there is nothing to resume
      const whole = await run(`./${file}`, ...flags, '--out', path(`${file}-whole`), '--verbose')
      expect(whole.stderr).toMatch(/^ {4}at /m)
    },
  )

  it('prints the settings of a built-in recipe, with those that were given', async () => {
    const { code, stdout } = await run(
      'wordProblems',
      '--print-config',
      '--steps',
      '3',
      '--set',
      'learner.learningRate=3e-5',
    )
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ steps: 3, model: 'embedded', learner: { learningRate: 3e-5 } })
  })

  it.each([
    [['wordProblms'], "unknown recipe 'wordProblms': did you mean 'wordProblems'?"],
    [['./missing.ts'], 'there is no recipe file'],
    [['./broken.ts'], 'broken.ts cannot be loaded: Error: ParseError'],
    [['./guest.ts'], 'it needs the package @tandem-rl/none: npm install @tandem-rl/none'],
    [['./empty.ts'], 'empty.ts exports no recipe'],
    [['./numbers.ts', '--set', 'learner.rate=1'], "unknown setting 'learner.rate'"],
    [['./numbers.ts', '--steps', '0.5'], 'numbers: steps: '],
  ])('refuses %j in one line', async (args, reason) => {
    const { code, stderr } = await run(...args, '--out', 'never')
    expect(code).toBe(1)
    expect(stderr).toContain(reason)
    expect(stderr.trim().split('\n')).toHaveLength(1)
    expect(existsSync(path('never'))).toBe(false)
  })

  it('trains a multi-turn recipe of a file, stops, and resumes to the same end', async () => {
    const common = ['./numbers.ts', '--model', model, '--config', 'small.yaml', '--eval-tasks', '2', '--threads', '1']
    const quiet = ['--set', 'keep.alarms=off', '--json']
    expect((await run(...common, '--steps', '2', '--out', 'whole', ...quiet)).code).toBe(0)
    expect((await run(...common, '--steps', '1', '--out', 'parts', ...quiet)).code).toBe(0)
    const rest = await run('--resume', 'parts', '--steps', '2', '--threads', '1', '--json')
    expect(rest.stderr).not.toContain('tandem:')
    expect(rest.code).toBe(0)
    const read = (name: string) => readFileSync(path(`${name}/trajectories.jsonl`), 'utf8')
    expect(read('parts')).toBe(read('whole'))
    const steps = withoutSeconds(parseJsonLines(readFileSync(path('whole/metrics.jsonl'), 'utf8')))
    expect(steps.some((record) => 'turns' in record && Number(record.turns) > 1)).toBe(true)
  })
})
