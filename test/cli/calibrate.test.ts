/** `tandem train --calibrate`: the chosen run, its resumption and replay, and what is refused. */
import { existsSync, readFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Calibration } from '../../src/run/metrics/calibration.js'
import {
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

beforeAll(() => writeAnsweringModel(path('model')))

/** Micro-batches of one group each, which are slower than fewer ones. */
const train = (out: string, ...more: readonly string[]): readonly string[] => [
  ...['train', '--model', 'model', ...SMALL_FLAGS, '--prompts', '16', '--micro-batch', '1'],
  ...['--eval-every', '2'], // a session ends with an evaluation
  ...['--json', '--out', out, ...more],
]

interface Config {
  readonly settings: { readonly compute: { readonly workers: number; readonly microBatch: number } }
  readonly calibration: Calibration
}

const configOf = (name: string): Config => JSON.parse(readFileSync(path(`${name}/config.json`), 'utf8')) as Config // by its schema

/** The results of a run, without times. */
const remains = (name: string) => {
  const { 'state.json': _, 'digests.json': __, ...files } = contentsOf(path(`${name}/checkpoints/step-000004`))
  const metrics = withoutSeconds(parseJsonLines(readFileSync(path(`${name}/metrics.jsonl`), 'utf8')))
  return { files, metrics, trajectories: readFileSync(path(`${name}/trajectories.jsonl`), 'utf8') }
}

describe('tandem train --calibrate', () => {
  it('equals the run with the chosen settings, bit for bit, also resumed and replayed', async () => {
    const { stdout, stderr } = await tandemOk(train('calibrated', '--calibrate', '--steps', '2'), { cwd })
    const { settings, calibration } = configOf('calibrated')
    const { chosen, measured } = calibration
    expect(settings.compute).toMatchObject({ workers: chosen.workers, microBatch: chosen.microBatch })
    expect(chosen.microBatch).toBeGreaterThan(1)
    expect(measured[0]).toMatchObject({ threads: 1, workers: 1, microBatch: 1, speed: 1 })
    expect(stderr.match(/s per batch, speed/g)).toHaveLength(measured.length)
    expect(stderr).toContain(`micro-batch ${chosen.microBatch}\n`)
    expect(parseJsonLines(stdout)[1]).toEqual({ type: 'calibration', ...calibration })

    const resumed = await tandemOk(['train', '--resume', 'calibrated', '--steps', '4', '--json'], { cwd })
    expect(resumed.stderr).not.toContain('calibrating')
    expect(resumed.stdout).not.toMatch(/"calibration"|"warning"/)
    expect(configOf('calibrated').calibration).toEqual(calibration)

    const explicit = ['--threads', chosen.threads, '--workers', chosen.workers, '--micro-batch', chosen.microBatch]
    await tandemOk(train('explicit', ...explicit.map(String)), { cwd })
    expect(remains('calibrated')).toEqual(remains('explicit'))

    const { stdout: replayed } = await tandemOk(['replay', 'calibrated', '3'], { cwd })
    expect(replayed).toContain('step 3 is bit-identical')
  })

  it('ends on Ctrl-C, without a run', async () => {
    const onSaid = (text: string) =>
      text.endsWith('calibrating threads, workers and micro-batch\n') ? 'SIGINT' : undefined
    const { code, stdout, stderr } = await tandem(train('stopped', '--calibrate'), { cwd, onSaid })
    expect({ code, stdout }).toEqual({ code: 130, stdout: '' })
    expect(stderr).toContain('the calibration was interrupted: no run was started')
    expect(existsSync(path('stopped'))).toBe(false)
  })

  it.each([
    [['--learner', 'tinker', '--url', 'http://127.0.0.1:9', '--base-model', 'm'], '--learner trains on a server'],
    [['--queue', 'redis://127.0.0.1:9'], 'the workers of --queue share'],
    [['--resume', 'calibrated'], '--resume keeps the threads and settings of the run'],
  ])('is refused with %j', async (flags, reason) => {
    const { code, stderr } = await tandem(['train', ...flags, '--calibrate'], { cwd })
    expect(code).toBe(1)
    expect(stderr).toContain(`tandem: `)
    expect(stderr).toContain(reason)
  })

  it('is refused for a recipe that does not use grpoParts', async () => {
    const { code, stderr } = await tandem(['train', 'sft', '--model', 'model', '--calibrate', '--out', 'sft'], { cwd })
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringContaining('the recipe sft cannot be calibrated'),
    })
    expect(existsSync(path('sft'))).toBe(false)
  })
})
