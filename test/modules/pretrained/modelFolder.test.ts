/** Models by name: folders, run folders, hub repositories, and the built-in model. */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type HostArray, type Hub, keyFromSeed, orThrow, describe as sentence } from '@tandem-rl/base'
import { liveDigest } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { bestStepOf } from '../../../src/data/runLayout.js'
import { EMBEDDED_MODEL } from '../../../src/live/embeddedModel.js'
import { mergeLora } from '../../../src/modules/lora/adapter.js'
import { loraConfig } from '../../../src/modules/lora/config.js'
import { adapterFiles, loadAdapter } from '../../../src/modules/lora/peft.js'
import { type ModelFolders, modelFolders } from '../../../src/modules/pretrained/modelFolder.js'
import {
  hostArrays,
  loadConfig,
  loadPretrained,
  loadText,
  makeParams,
} from '../../../src/modules/pretrained/pretrained.js'
import { useEngine } from '../../kit/engine.js'
import { randomAdapter } from '../../kit/lora.js'
import { evaluationRecord } from '../../kit/records.js'
import { leftOf, rightOf } from '../../kit/results.js'
import { useTemporaryFolder } from '../../kit/runs.js'
import { useTrainingRuns } from '../../kit/trainingRuns.js'

useEngine()
const path = useTemporaryFolder()

/** A model of one folder. */
const only = (folder: string): ModelFolders => ({ folder, adapters: [] })

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
      expect(await rightOf(modelFolders(name, { hub }))).toEqual(only('/cache/c0ffee'))
      expect(fetched).toEqual(['config.json', 'model.safetensors', 'tokenizer.json'])
    },
  )

  it('that is a folder is not looked up on the hub', async () => {
    const { hub, fetched } = hubWith(REPOSITORY)
    expect(await rightOf(modelFolders(EMBEDDED_MODEL, { hub }))).toEqual(only(EMBEDDED_MODEL))
    expect(await rightOf(modelFolders('models/word-problems', { hub }))).toEqual(only('models/word-problems'))
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
    expect(await rightOf(modelFolders(run))).toEqual(only(`${run}/checkpoints/step-000003`))
    expect(await rightOf(modelFolders(`${run}/`))).toEqual(only(`${run}/checkpoints/step-000003`))
    const best = await rightOf(loadPretrained(run))
    expect(best.arrays).toEqual((await rightOf(loadPretrained(`${run}/checkpoints/step-000003`))).arrays)
    rmSync(`${run}/checkpoints/step-000003`, { recursive: true })
    expect(await rightOf(modelFolders(run))).toEqual(only(`${run}/checkpoints/step-000004`))
    rmSync(`${run}/metrics.jsonl`)
    expect(await rightOf(modelFolders(run))).toEqual(only(`${run}/checkpoints/step-000004`))
  })

  it('without a checkpoint is refused with the places that were looked at', async () => {
    mkdirSync(path('begun/checkpoints'), { recursive: true })
    writeFileSync(path('begun/config.json'), '{}')
    expect(await leftOf(loadPretrained(path('begun')))).toMatchObject({
      reason: 'it is a run without a checkpoint of a model or an adapter; looked in checkpoints, best/model and model',
    })
  })

  it('of an adapter is the base with the best adapter, otherwise with the newest', async () => {
    await runs.start('adapter', { steps: 4, loraRank: 2, checkpointEvery: 1, evalEvery: 4 })
    const [run, base] = [path('adapter'), only(path('model'))]
    cpSync(EMBEDDED_MODEL, `${run}/model`, { recursive: true })
    writeFileSync(`${run}/metrics.jsonl`, `${JSON.stringify(evaluationRecord(3, 0.5))}\n`)
    expect(await rightOf(modelFolders(run))).toEqual({ ...base, adapters: [`${run}/checkpoints/step-000003`] })
    rmSync(`${run}/checkpoints/step-000003`, { recursive: true })
    expect(await rightOf(modelFolders(run))).toEqual({ ...base, adapters: [`${run}/checkpoints/step-000004`] })
  })
})

describe('an adapter', () => {
  const LORA = loraConfig({ rank: 2, alpha: 6, targetModules: ['q_proj', 'up_proj'] })

  /** Writes an adapter of random numbers for the embedded model, or files for a broken one. */
  const writeAdapter = async (name: string, baseModel: string | null, seed = 1): Promise<string> => {
    const { config } = await rightOf(loadPretrained('embedded'))
    const adapter = randomAdapter(config, LORA, keyFromSeed(seed))
    orThrow(await liveFiles.writeFolder(path(name), adapterFiles(adapter, { baseModel }))())
    return path(name)
  }

  const digests = (arrays: ReadonlyMap<string, HostArray>): readonly (readonly [string, string])[] =>
    [...arrays].map(([name, { data }]) => [
      name,
      liveDigest(new Uint8Array(data.buffer, data.byteOffset, data.byteLength)),
    ])

  const merged = async (...folders: readonly string[]) => {
    const { config, arrays } = await rightOf(loadPretrained('embedded'))
    const adapters = await Promise.all(folders.map((folder) => rightOf(loadAdapter(folder, config))))
    const params = scope(() =>
      hostArrays(
        adapters.reduce(
          (base, { adapter }) =>
            mergeLora(config, base, { config: adapter.config, tensors: makeParams(adapter.arrays) }),
          makeParams(arrays),
        ),
      ),
    )
    return digests(params)
  }

  it('by its folder is its base model with the adapter merged', async () => {
    const folder = await writeAdapter('plain', 'embedded')
    const { arrays, text, config } = await rightOf(loadPretrained(folder))
    expect(digests(arrays)).toEqual(await merged(folder))
    const base = await rightOf(loadPretrained('embedded'))
    expect(digests(arrays)).not.toEqual(digests(base.arrays))
    expect(text.files).toEqual(base.text.files)
    expect(config).toEqual(base.config)
    expect(await rightOf(loadConfig(folder))).toEqual(config)
    expect((await rightOf(loadText(folder))).text.files).toEqual(text.files)
  })

  it('may be trained on another one', async () => {
    const first = await writeAdapter('first', 'embedded')
    const second = await writeAdapter('second', first, 2)
    expect(digests((await rightOf(loadPretrained(second))).arrays)).toEqual(await merged(first, second))
  })

  it('is added to any model by MODEL+ADAPTER, also with + in its path', async () => {
    const plain = await writeAdapter('c++/a+b', null)
    const last = await writeAdapter('last', null, 2)
    expect(await rightOf(modelFolders(`embedded+${plain}`))).toEqual({ folder: EMBEDDED_MODEL, adapters: [plain] })
    const all = `embedded+${plain}+${last}`
    expect(await rightOf(modelFolders(all))).toEqual({ folder: EMBEDDED_MODEL, adapters: [plain, last] })
    expect(digests((await rightOf(loadPretrained(all))).arrays)).toEqual(await merged(plain, last))
  })

  it('with a tokenizer of its own brings its text', async () => {
    const folder = await writeAdapter('speaks', 'embedded')
    for (const file of ['tokenizer.json', 'tokenizer_config.json'])
      cpSync(`${EMBEDDED_MODEL}/${file}`, `${folder}/${file}`)
    writeFileSync(`${folder}/chat_template.jinja`, '{{ messages[0].content }}')
    expect((await rightOf(loadText(folder))).text.template.source).toBe('{{ messages[0].content }}')
    expect((await rightOf(loadPretrained(folder))).text.template.source).toBe('{{ messages[0].content }}')
  })

  it('is found on the hub, and its base model in the revision that it names', async () => {
    const folder = await writeAdapter('downloaded', 'owner/base')
    const config = `${folder}/adapter_config.json`
    writeFileSync(config, readFileSync(config, 'utf8').replace('"peft_type"', '"revision": "v2", "peft_type"'))
    const listed: string[] = []
    const hub: Hub = {
      list: ({ name, revision }) => {
        listed.push(`${name}@${revision}`)
        const files = name === 'owner/base' ? REPOSITORY : ['adapter_config.json', 'adapter_model.safetensors']
        return TE.right({ commit: 'c0ffee', origin: 'hub', files: files.map((each) => ({ path: each, size: 1 })) })
      },
      download: ({ name }, file) => TE.right(name === 'owner/base' ? `/cache/${file}` : `${folder}/${file}`),
    }
    expect(await rightOf(modelFolders('owner/adapter', { hub }))).toEqual({ folder: '/cache', adapters: [folder] })
    expect(listed).toEqual(['owner/adapter@main', 'owner/base@v2'])
  })

  it.each([
    ['without the name of a base', null, /^it names no base model: name the model and the adapter as MODEL\+ADAPTER/],
    ['whose base is gone', 'gone/away/from/here', /^its base: .*gone\/away\/from\/here.* no such folder.* If it moved/],
  ])('%s is refused with the way out', async (name, base, reason) => {
    const failure = await leftOf(loadPretrained(await writeAdapter(name, base)))
    expect(failure).toMatchObject({ folder: path(name), reason: expect.stringMatching(reason) })
  })

  it('that is its own base is refused', async () => {
    const folder = await writeAdapter('circle', path('circle'))
    expect((await leftOf(loadPretrained(folder))).reason).toContain('more than 16 adapters are based on each other')
  })

  it('is not a model, and a model is not an adapter', async () => {
    const failure = await leftOf(modelFolders(`embedded+${EMBEDDED_MODEL}`))
    expect(failure).toMatchObject({ folder: EMBEDDED_MODEL, reason: 'it is not an adapter to add to embedded' })
  })
})

it('the best step is the earliest of the best evaluations that compare with the last one', () => {
  const at = (step: number, accuracy: number, tasks: number): string =>
    JSON.stringify(evaluationRecord(step, accuracy, { tasks }))
  const lines = [at(0, 1, 8), at(1, 0.9, 4), '{"type":"step"}', at(2, 0.5, 8), at(3, 0.7, 8), at(4, 0.7, 8), '{"ty']
  expect(bestStepOf(lines.join('\n'))).toBe(3)
  expect(bestStepOf('')).toBeUndefined()
})
