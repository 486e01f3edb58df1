/** `tandem train --profile`: the files of a profile, an unchanged run, and what is refused. */
import { existsSync, readFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { contentsOf, SMALL_FLAGS, tandem, tandemOk, useTemporaryFolder, writeAnsweringModel } from '../kit/runs.js'

const path = useTemporaryFolder()
const cwd = path('.')

beforeAll(() => writeAnsweringModel(path('model')))

const train = (out: string, ...more: readonly string[]): readonly string[] => [
  ...['train', '--model', 'model', ...SMALL_FLAGS, '--steps', '3', '--out', out, ...more],
]

const weightsOf = (run: string) => contentsOf(path(`${run}/checkpoints/step-000003`))['model.safetensors']

describe('tandem train --profile', () => {
  it('writes a table and a picture of the steps after the first, and changes no weight', async () => {
    const { stderr } = await tandemOk(train('profiled', '--profile', '1'), { cwd })
    const table = readFileSync(path('profiled/profile.txt'), 'utf8')
    expect(table).toMatch(/^1 step of .*profiled\n/)
    expect(table).toMatch(/\n\d+ others +\d+ +[\d.]+ +[\d.]+ %\n/) // operators of a tiny model
    expect(table).toMatch(/\nstep +[\d.]+ +100 %\n/)
    expect(stderr).toContain(table.split('\n\n')[1]!.trim())
    expect(readFileSync(path('profiled/profile.svg'), 'utf8')).toMatch(/^<svg .*<\/svg>\s*$/s)
    await tandemOk(train('plain'), { cwd })
    expect(weightsOf('profiled')).toEqual(weightsOf('plain'))
    expect(existsSync(path('plain/profile.txt'))).toBe(false)
  })

  it('names what is missing if a run has too few steps', async () => {
    const { stderr } = await tandemOk(train('short', '--profile', '3'), { cwd })
    expect(stderr).toContain('no profile: it needs 4 steps, the first of which compiles graphs')
    expect(existsSync(path('short/profile.txt'))).toBe(false)
  })

  it.each([
    [['--backend', 'cpu'], '--profile measures onnxruntime'],
    [['--learner', 'tinker', '--url', 'http://127.0.0.1:9', '--base-model', 'm'], '--learner trains on a server'],
    [['--calibrate'], 'omit it, and profile the chosen ones'],
    [['--dry-run'], '--dry-run trains no step'],
  ])('is refused with %j', async (flags, reason) => {
    const { code, stderr } = await tandem(train('refused', '--profile', '1', ...flags), { cwd })
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(reason) })
    expect(existsSync(path('refused'))).toBe(false)
  })
})
