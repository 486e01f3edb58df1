/** Text from elsewhere on a terminal: nothing that the terminal would obey. */
import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { SOURCE_FOLDERS, typeScriptBelow } from '../../scripts/kit/workspace.js'
import { compiled } from '../kit/compiled.js'
import { tandemOk, useTemporaryFolder } from '../kit/runs.js'
import { writeRun } from '../kit/writtenRun.js'

const path = useTemporaryFolder()

const HOSTILE = 'a\u001b]0;owned\u0007\u001b[2Jb\u009b31mc\u202ed\rE'

/** Runs `tandem` as on a terminal. */
const onTerminal = (args: readonly string[]): Promise<string> =>
  new Promise((done) => {
    const terminal = 'data:text/javascript,process.stdout.isTTY = process.stderr.isTTY = true'
    const env = { ...process.env, XDG_STATE_HOME: path('.state') }
    const running = spawn(process.execPath, ['--import', terminal, compiled('src/cli/main.ts'), ...args], {
      cwd: path('.'),
      env,
    })
    let text = ''
    for (const stream of [running.stdout, running.stderr])
      stream.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
    running.on('close', () => done(text))
  })

const RECIPE = `
import * as T from 'tandem-rl'
const source = T.taskList('hostile', [{ id: '0', query: ${JSON.stringify(HOSTILE)}, answer: '1' }])
const env = ({ prompts, repeats, start }) =>
  T.MultiTurnEnv({ source, maxTurns: 1, prompts, repeats, start, reply: () => ({ done: true, reward: 0 }) })
export const recipe = T.defineRecipe({
  name: 'hostile',
  summary: ${JSON.stringify(HOSTILE)},
  settings: T.policySettings,
  build: async (settings, context) =>
    T.defineRun(T.grpoParts(settings, { model: await T.orThrow(T.loadPretrained(settings.model)), env, heldOut: [] }), context),
})
`

describe('a terminal', () => {
  it.each([
    ['the question and the answer of sample', ['sample', HOSTILE, '--count', '1', '--max-new-tokens', '2']],
    ['JSON of sample', ['sample', HOSTILE, '--count', '1', '--max-new-tokens', '2', '--json']],
    ['the questions of a recipe', ['sample', '--recipe', './hostile.ts', '--count', '1', '--max-new-tokens', '2']],
    ['names of runs', ['runs', 'hostile']],
    ['JSON of runs', ['runs', 'hostile', '--json']],
    ['differences of runs', ['compare', 'hostile', 'other']],
    ['a file that does not exist', ['train', `./${HOSTILE}.ts`]],
    ['an unknown option', ['train', `--${HOSTILE}`]],
    ['an unknown recipe', ['train', HOSTILE]],
    ['an invalid setting', ['train', './hostile.ts', '--set', `${HOSTILE}=1`]],
    ['a recipe that cannot be built', ['train', './hostile.ts', '--model', HOSTILE, '--dry-run']],
    ['an unknown setting of a run', ['eval', 'hostile']],
  ])('shows control characters of %s', async (_, args) => {
    writeFileSync(path('hostile.ts'), RECIPE)
    for (const name of ['hostile', 'other']) {
      writeRun(path(name), { learningRate: name === 'other' ? 1 : 2, reward: 1, query: HOSTILE })
      const note = { name: `${HOSTILE}${name}`, tags: [HOSTILE], note: HOSTILE }
      writeFileSync(path(`${name}/note.json`), JSON.stringify(note))
    }
    const text = await onTerminal(args)
    expect(text).not.toBe('')
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a terminal obeys
    expect(text).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/)
  })

  it('gets the same text as a pipe if that has no control characters', async () => {
    expect(await onTerminal(['doctor', '--help'])).toBe(
      (await tandemOk(['doctor', '--help'], { cwd: path('.') })).stdout,
    )
  })
})

/** Files of src that write to the terminal themselves, and what they write. */
const WRITERS: Readonly<Record<string, string>> = {
  'packages/base/src/host/output.ts': 'all text',
  'src/cli/main.ts': 'nothing: it handles the error of a closed pipe',
  'src/cli/tandem.ts': 'that Node is too old',
  'src/cli/train.ts': 'nothing: it chooses the display',
  'src/cli/eval.ts': 'a bar of numbers',
  'packages/games/src/commands/arenaDisplay.ts': 'a bar of numbers',
  'packages/tfjs-onnxruntime/src/ownership.ts': 'places in programs',
  'packages/base/src/host/browser/host.ts': 'the console of a page',
  'packages/base/src/host/browser/output.ts': 'the console of a page',
  'src/run/define/agentRun.ts': 'visible text, also in pages',
}

it('is written to by a few files, and by all others through `print`', () => {
  const own = /^(?! *(?:\*|\/\/|\/\*\*)).*\b(?:process\.(?:stdout|stderr)|console\.(?:log|error|warn|info|debug))\b/m
  const found = SOURCE_FOLDERS.flatMap(typeScriptBelow).filter((file) => own.test(readFileSync(file, 'utf8')))
  expect(found.sort()).toEqual(Object.keys(WRITERS).sort())
})
