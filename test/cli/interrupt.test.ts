/**
 * Runs that are stopped, politely or not, and go on: the end is that of a run that was never
 * stopped, byte for byte.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import {
  type CommandResult,
  contentsOf,
  parseJsonLines,
  SMALL_FLAGS,
  tandem,
  tandemOk,
  useTemporaryFolder,
  withoutSeconds,
  writeAnsweringModel,
} from '../kit/runs.js'

const path = useTemporaryFolder()
const cwd = path('.')

const train = (out: string, steps: number): readonly string[] => [
  ...['train', '--model', 'model', ...SMALL_FLAGS, '--steps', String(steps), '--out', out, '--json'],
]

/** Far more steps than anybody waits for: the signal always comes before the end. */
const ENDLESS = 100_000

/**
 * Starts a run and sends it a signal when it reports step `step`. The tests do not depend on the
 * step at which it then stops.
 */
const stop = (out: string, signal: NodeJS.Signals, step: number): Promise<CommandResult> => {
  let sent = false
  const onLine = (line: string): NodeJS.Signals | undefined => {
    if (sent || !line.startsWith(`{"type":"step","step":${step},`)) return undefined
    sent = true
    return signal
  }
  return tandem(train(out, ENDLESS), { cwd, onLine })
}

const lastCheckpoint = (name: string): string => readdirSync(path(`${name}/checkpoints`)).at(-1)!

const stepOf = (checkpoint: string): number => Number(checkpoint.split('-')[1])

/** The results of a run, without times. */
const remains = (name: string) => {
  const { 'model.safetensors': weights, 'optimizer.safetensors': optimizer } = contentsOf(
    path(`${name}/checkpoints/${lastCheckpoint(name)}`),
  )
  return {
    ...{ weights, optimizer, checkpoint: lastCheckpoint(name) },
    metrics: withoutSeconds(parseJsonLines(readFileSync(path(`${name}/metrics.jsonl`), 'utf8'))),
    trajectories: readFileSync(path(`${name}/trajectories.jsonl`), 'utf8'),
  }
}

const saved = (name: string): readonly string[] =>
  readdirSync(path(`${name}/checkpoints`)).filter((entry) => !entry.includes('.tmp-'))

/** The end of a run, and its resumption. */
interface Story {
  readonly stopped: CommandResult
  /** The steps of its last checkpoint when it was stopped. */
  readonly done: number
  readonly resumed: CommandResult
}

let polite: Story
let killed: Story
let steps = 0

/** Stops a run in each way, and resumes both to the same step as an uninterrupted third. */
beforeAll(async () => {
  await writeAnsweringModel(path('model'))
  const stopped = await Promise.all([stop('polite', 'SIGINT', 2), stop('killed', 'SIGKILL', 5)])
  const done = [stepOf(saved('polite').at(-1)!), stepOf(saved('killed').at(-1)!)] as const
  steps = Math.max(...done) + 2
  const resume = (name: string) => tandemOk(['train', '--resume', name, '--steps', String(steps), '--json'], { cwd })
  const resumed = await Promise.all([resume('polite'), resume('killed'), tandemOk(train('whole', steps), { cwd })])
  polite = { stopped: stopped[0], done: done[0], resumed: resumed[0] }
  killed = { stopped: stopped[1], done: done[1], resumed: resumed[1] }
})

describe('Ctrl-C', () => {
  it('finishes the step, saves, prints how to resume and exits with 130', () => {
    const { stopped, done } = polite
    expect(stopped).toMatchObject({ code: 130, signal: null })
    const events = parseJsonLines(stopped.stdout)
    expect(events.slice(-2)).toMatchObject([
      { type: 'checkpoint', step: done },
      { type: 'end', summary: { status: 'interrupted', steps: done } },
    ])
    expect(events.filter(({ type }) => type === 'step').at(-1)).toMatchObject({ step: done })
    expect(stopped.stderr).toContain('finishing this step, then saving')
    expect(stopped.stderr).toContain(`resume with: tandem train --resume ${path('polite')}`)
  })

  it('resumes after its last step to the same end, and then reports the run as finished', () => {
    expect(parseJsonLines(polite.resumed.stdout)[0]).toMatchObject({ type: 'start', firstStep: polite.done + 1 })
    expect(remains('polite')).toEqual(remains('whole'))
    const summary: unknown = JSON.parse(readFileSync(path('polite/summary.json'), 'utf8'))
    expect(summary).toMatchObject({ status: 'finished', steps })
    expect(polite.resumed.stderr).not.toContain('resume with')
  })
})

describe('kill -9', () => {
  it('stops the run in the middle, without a word', () => {
    expect(killed.stopped).toMatchObject({ code: null, signal: 'SIGKILL' })
    expect(killed.stopped.stdout).not.toContain('"type":"end"')
    expect(killed.done).toBeGreaterThan(0)
  })

  it('loses only the steps after the last checkpoint: the run resumes to the same end', () => {
    expect(parseJsonLines(killed.resumed.stdout)[0]).toMatchObject({ type: 'start', firstStep: killed.done + 1 })
    expect(remains('killed')).toEqual(remains('whole'))
  })

  it('leaves nothing unfinished behind', () => {
    expect(readdirSync(path('killed/checkpoints'))).toEqual(saved('killed'))
  })
})
