/** Models by name: folders, run folders, hub repositories, and the built-in model. */
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { describe as sentence } from '../../../src/core/failure.js'
import type { Hub } from '../../../src/core/hub.js'
import { bestStepOf } from '../../../src/data/runLayout.js'
import { EMBEDDED_MODEL } from '../../../src/live/embeddedModel.js'
import { liveFiles } from '../../../src/live/files.js'
import { modelFolder } from '../../../src/modules/pretrained/modelFolder.js'
import { loadConfig, loadPretrained, loadText } from '../../../src/modules/pretrained/pretrained.js'
import { useEngine } from '../../kit/engine.js'
import { evaluationRecord } from '../../kit/records.js'
import { leftOf, rightOf } from '../../kit/results.js'
import { useTemporaryFolder } from '../../kit/runs.js'
import { useTrainingRuns } from '../../kit/trainingRuns.js'

useEngine()
const path = useTemporaryFolder()

/** A hub with one repository of these files. Downloads are recorded. */
const hubWith = (paths: readonly string[]): { readonly hub: Hub; readonly fetched: readonly string[] } => {
  const fetched: string[] = []
  const hub: Hub = {
    list: ({ name }) =>
      name === 'owner/name'
        ? TE.right({ commit: 'c0ffee', origin: 'hub', files: paths.map((each) => ({ path: each, size: 1 })) })
        : TE.left({ _tag: 'HubFailure', kind: 'not-found', repo: name, reason: `${name}: no such repository` }),
    download: ({ revision }, file) => {
      fetched.push(file)
      return TE.right(`/cache/${revision}/${file}`)
    },
  }
  return { hub, fetched }
}

const REPOSITORY = ['README.md', 'config.json', 'model.safetensors', 'pytorch_model.bin', 'tokenizer.json']

describe('a name', () => {
  it.each(['owner/name', 'owner/name@v2', 'hub:owner/name', 'hub:owner/name@v2'])(
    '%s is a repository, of which the needed files are downloaded',
    async (name) => {
      const { hub, fetched } = hubWith(REPOSITORY)
      expect(await rightOf(modelFolder(name, { hub }))).toBe('/cache/c0ffee')
      expect(fetched).toEqual(['config.json', 'model.safetensors', 'tokenizer.json'])
    },
  )

  it('that is a folder is not looked up on the hub', async () => {
    const { hub, fetched } = hubWith(REPOSITORY)
    expect(await rightOf(modelFolder(EMBEDDED_MODEL, { hub }))).toBe(EMBEDDED_MODEL)
    expect(await rightOf(modelFolder('models/word-problems', { hub }))).toBe('models/word-problems')
    expect(fetched).toEqual([])
  })

  it("'embedded' is the model that comes with Tandem, for every loader", async () => {
    const { config, text, arrays } = await rightOf(loadPretrained('embedded'))
    expect(await rightOf(loadConfig('embedded'))).toEqual(config)
    expect((await rightOf(loadText('embedded'))).text.files).toEqual(text.files)
    expect(arrays.size).toBeGreaterThan(0)
  })

  it.each([
    ['no/such/folder', 'there is no such folder, and it is not a name on the hub (OWNER/NAME)'],
    ['../no-such-folder', 'there is no such folder, and it is not a name on the hub (OWNER/NAME)'],
    ['hub:name', 'a model on the hub is named hub:OWNER/NAME or hub:OWNER/NAME@REVISION'],
    ['no/repository', 'there is no such folder; the hub: no/repository: no such repository'],
    ['hub:no/repository', 'the hub: no/repository: no such repository'],
    ['owner/name', 'there is no such folder; the hub: the repository has no config.json, so it is not a model'],
  ])('%s that is nothing fails with what was tried', async (name, reason) => {
    const failure = await leftOf(loadPretrained(name, liveFiles, { hub: hubWith(['README.md']).hub }))
    expect(failure).toMatchObject({ _tag: 'ModelFailure', reason })
    expect(sentence(failure)).toBe(`the model ${failure.folder} cannot be used: ${reason}`)
  })
})

describe('the folder of a run', () => {
  const runs = useTrainingRuns(path)

  it('is its best checkpoint, and without that its newest', async () => {
    await runs.start('run', { steps: 4, checkpointEvery: 1, evalEvery: 2 })
    const run = path('run')
    const evaluation = (step: number, accuracy: number): string =>
      `${JSON.stringify(evaluationRecord(step, accuracy))}\n`
    writeFileSync(`${run}/metrics.jsonl`, evaluation(0, 1) + evaluation(3, 0.5) + evaluation(4, 0.25))
    expect(await rightOf(modelFolder(run))).toBe(`${run}/checkpoints/step-000003`)
    expect(await rightOf(modelFolder(`${run}/`))).toBe(`${run}/checkpoints/step-000003`)
    const best = await rightOf(loadPretrained(run))
    expect(best.arrays).toEqual((await rightOf(loadPretrained(`${run}/checkpoints/step-000003`))).arrays)
    rmSync(`${run}/checkpoints/step-000003`, { recursive: true })
    expect(await rightOf(modelFolder(run))).toBe(`${run}/checkpoints/step-000004`)
    rmSync(`${run}/metrics.jsonl`)
    expect(await rightOf(modelFolder(run))).toBe(`${run}/checkpoints/step-000004`)
  })

  it('without a checkpoint is refused with the places that were looked at', async () => {
    mkdirSync(path('begun/checkpoints'), { recursive: true })
    writeFileSync(path('begun/config.json'), '{}')
    expect(await leftOf(loadPretrained(path('begun')))).toMatchObject({
      reason: 'it is a run without a checkpoint; looked in checkpoints, best/model and model',
    })
  })

  it('of an adapter is its merged model, best first; without one it names the adapter', async () => {
    await runs.start('adapter', { steps: 2, loraRank: 2 })
    expect(await leftOf(loadPretrained(path('adapter')))).toMatchObject({
      reason: expect.stringContaining('load its base model, and the adapter of checkpoints/step-000002'),
    })
    cpSync(EMBEDDED_MODEL, path('adapter/model'), { recursive: true })
    expect(await rightOf(modelFolder(path('adapter')))).toBe(path('adapter/model'))
    cpSync(EMBEDDED_MODEL, path('adapter/best/model'), { recursive: true })
    expect(await rightOf(modelFolder(path('adapter')))).toBe(path('adapter/best/model'))
  })
})

it('the best step is the earliest of the best evaluations that compare with the last one', () => {
  const at = (step: number, accuracy: number, tasks: number): string =>
    JSON.stringify(evaluationRecord(step, accuracy, { tasks }))
  const lines = [at(0, 1, 8), at(1, 0.9, 4), '{"type":"step"}', at(2, 0.5, 8), at(3, 0.7, 8), at(4, 0.7, 8), '{"ty']
  expect(bestStepOf(lines.join('\n'))).toBe(3)
  expect(bestStepOf('')).toBeUndefined()
})
