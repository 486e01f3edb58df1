/**
 * Reads the files of the sink with TensorBoard, of a run that was killed within a record and
 * resumed: `npm run verify -- tensorBoard`, with TRACKING_VENV set to a virtual environment in
 * which `pip install tensorboard` was run. Exits with 1 if it reads anything but the tracked
 * events.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, statSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { child, keyFromSeed, normals, orThrow } from '@tandem-rl/base'
import { type TrackedEvent, tensorBoardSink } from '@tandem-rl/tracking'

const venv = process.env.TRACKING_VENV
if (venv === undefined) {
  console.error('set TRACKING_VENV to a virtual environment with tensorboard')
  process.exit(2)
}

const STEPS = 2000
/** The second session resumes here; the first one had advanced further. */
const FROM = 1200
const KILLED = 1503
const NAMES = ['train/loss', 'rollout/reward', 'eval/ümlaut']

const BEGUN = 1_795_312_000_000
const key = keyFromSeed(11)

/** Numbers of a step: the same in both sessions but for their time. */
const scalars = (step: number, session: number): Extract<TrackedEvent, { readonly type: 'scalars' }> => {
  const [numbers, at] = [normals(child(key, step), NAMES.length), BEGUN + 1e7 * session + 250 * step]
  const values = Object.fromEntries(NAMES.map((name, i) => [name, numbers[i]! * 10 ** (i * 10 - 10)]))
  return { type: 'scalars', at, step, values, seconds: { training: step / 7 } }
}

const range = (first: number, last: number): readonly number[] =>
  Array.from({ length: last - first + 1 }, (_, i) => first + i)

const runSession = async (folder: string, session: number, steps: readonly number[]): Promise<void> => {
  const sink = tensorBoardSink(folder)
  const from = steps[0]!
  const at = BEGUN + 1e7 * session
  orThrow(await sink.write([{ type: 'start', at, run: 'checked', from, settings: { seed: 1 } }])())
  for (let i = 0; i < steps.length; i += 100) {
    orThrow(await sink.write(steps.slice(i, i + 100).map((step) => scalars(step, session)))())
  }
  const step = steps.at(-1)!
  const samples = [{ name: '0', text: `sample of ${step}` }]
  orThrow(await sink.write([{ type: 'samples', at, step, samples }])())
}

const folder = mkdtempSync(join(tmpdir(), 'tandem-check-'))
try {
  await runSession(folder, 0, range(0, KILLED))
  const [first] = readdirSync(folder)
  const path = join(folder, first!)
  truncateSync(path, statSync(path).size - 150) // in the middle of the last record: the sample is lost
  await runSession(folder, 1, range(FROM, STEPS))
  const answer = execFileSync(join(venv, 'bin/python'), ['scripts/verify/peers/tensorBoard.py', folder], {
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  type Rows = Readonly<Record<string, readonly (readonly [step: number, seconds: number, value: unknown])[]>>
  const read = JSON.parse(answer) as { readonly scalars: Rows; readonly texts: Rows } // as the script prints them
  const told = [
    ...range(0, FROM - 1).map((step) => scalars(step, 0)),
    ...range(FROM, STEPS).map((step) => scalars(step, 1)),
  ]
  const expected = Object.fromEntries(
    [...NAMES, 'time/training'].map((name) => [
      name,
      told.map(({ step, at, values, seconds }) => [step, at / 1000, Math.fround(values[name] ?? seconds.training!)]),
    ]),
  )
  const wrong = Object.keys(expected).filter((name) => !isDeepStrictEqual(read.scalars[name], expected[name]))
  const sampled = read.texts['samples/0']?.map(([, , text]) => text)
  const ok =
    wrong.length === 0 &&
    Object.keys(read.scalars).length === NAMES.length + 1 &&
    isDeepStrictEqual(sampled, [`    sample of ${STEPS}`])
  for (const name of wrong) {
    const [ours, theirs] = [expected[name]!, read.scalars[name] ?? []]
    const i = ours.findIndex((row, at) => !isDeepStrictEqual(row, theirs[at]))
    console.log(
      `${name}: ${theirs.length} rows of ${ours.length}; the first that differs: ${JSON.stringify([ours[i], theirs[i]])}`,
    )
  }
  console.log(JSON.stringify({ steps: told.length, tags: Object.keys(read.scalars), wrong, sampled, ok }))
  if (!ok) process.exitCode = 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}
