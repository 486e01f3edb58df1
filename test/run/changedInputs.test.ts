/** Runs that are resumed with other rows, another template or another recipe file. */
import { readFileSync } from 'node:fs'
import { chatTemplate, History, message } from '@tandem-rl/text'
import { describe, expect, it } from 'vitest'
import type { PlainTask } from '../../src/data/task.js'
import * as T from '../../src/index.js'
import { trainOptionsOf } from '../../src/run/define/choices.js'
import { replay } from '../../src/run/train/replay.js'
import { useEngine } from '../kit/engine.js'
import { smallModel } from '../kit/learners.js'
import { answeringModel, smallSettings, useTemporaryFolder } from '../kit/runs.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

const rows = (count: number, from = 0) =>
  Array.from({ length: count }, (_, i) => ({ query: `${from + i} + 1?`, answer: `#### ${from + i + 1}` }))

interface Given {
  readonly train?: readonly PlainTask[]
  readonly heldOut?: readonly PlainTask[]
  readonly template?: 'own' | 'other'
  readonly digest?: string
  readonly changes?: 'accept'
}

/** Trains a policy in a folder up to a step; its events. */
const policy = async (name: string, steps: number, given: Given = {}): Promise<readonly T.RunEvent[]> => {
  const { train = rows(6), heldOut = rows(4, 50), template = 'own', digest, changes } = given
  const { text, ...model } = await answeringModel()
  const source = `${text.template.source}{# another #}`
  const used = template === 'own' ? text : { ...text, template: T.orThrow(chatTemplate(source)) }
  const settings = smallSettings('answering', { steps, alarms: 'off' })
  const env = (list: readonly PlainTask[], named: string) => (tasks: T.TaskContext) =>
    T.GSM8KEnv({ source: T.taskList(named, list), ...tasks })
  const run = await T.defineRun(
    T.grpoParts(settings, {
      model: { ...model, text: used },
      env: env(train, 'train.jsonl'),
      heldOut: [{ env: env(heldOut, 'test.jsonl') }],
    }),
    { memory: 'ignore' },
  )
  const recipe = { name: 'own', file: 'own.ts', settings: {}, ...(digest !== undefined && { digest }) }
  const store = T.runFolder(path(name), changes && { changes })
  const events: T.RunEvent[] = []
  for await (const event of T.train(run, { ...trainOptionsOf(settings), store, recipe })) events.push(event)
  return events
}

const alarmsOf = (events: readonly T.RunEvent[]) => events.filter((event) => event.type === 'alarm')

/** Each changed input, and its name in messages. */
const CHANGES: readonly (readonly [string, Given])[] = [
  ['rows of train.jsonl', { train: rows(6, 10) }],
  ['rows of train.jsonl', { train: rows(5) }],
  ['rows of train.jsonl', { train: rows(6).toReversed() }],
  ['rows of test.jsonl', { heldOut: rows(4, 60) }],
  ['chat template', { template: 'other' }],
  ['recipe file', { digest: 'b' }],
]

describe('a policy run that is resumed', () => {
  it('is refused with any other input, which is named with the way out, and continues with equal ones', async () => {
    await policy('refused', 1, { digest: 'a' })
    const before = readFileSync(path('refused/metrics.jsonl'), 'utf8')
    for (const [name, change] of CHANGES) {
      const error = await policy('refused', 2, { digest: 'a', ...change }).catch(String)
      expect(error).toContain(`inputs of the run have changed since its last session: ${name}. Restore them`)
      expect(error).toContain('--accept-changes')
    }
    expect(readFileSync(path('refused/metrics.jsonl'), 'utf8')).toBe(before)
    expect(alarmsOf(await policy('refused', 2, { digest: 'a' }))).toEqual([])
  })

  it('continues if changes are accepted, with an alarm in the run folder, once', async () => {
    await policy('accepted', 1)
    const changed = { train: rows(3, 20), heldOut: rows(2, 60) }
    const [alarm, ...others] = alarmsOf(await policy('accepted', 2, { ...changed, changes: 'accept' }))
    expect(others).toEqual([])
    expect(alarm).toMatchObject({ alarm: 'changed-inputs', step: 2, path: path('accepted/alarms/step-000002') })
    expect(alarm!.message).toContain('rows of train.jsonl; rows of test.jsonl')
    const stored = readFileSync(path('accepted/alarms/step-000002/alarms.json'), 'utf8')
    expect(JSON.parse(stored)).toMatchObject([{ alarm: 'changed-inputs' }])
    expect(alarmsOf(await policy('accepted', 3, changed))).toEqual([])
  })

  it('is not compared with a folder of an earlier version, which has no digests', async () => {
    await policy('older', 1)
    const config = path('older/config.json')
    const { inputs, ...rest } = JSON.parse(readFileSync(config, 'utf8')) as { readonly inputs: object } // written by `train`
    expect(Object.keys(inputs)).toEqual(['rows of train.jsonl', 'chat template', 'tokenizer', 'rows of test.jsonl'])
    T.orThrow(await T.runFolder('').files.write(config, JSON.stringify(rest))())
    expect(alarmsOf(await policy('older', 2, { train: rows(2) }))).toEqual([])
    await expect(policy('older', 3)).rejects.toThrow('rows of train.jsonl')
  })
})

describe('a replayed run', () => {
  it('is refused with other rows', async () => {
    await policy('replayed', 2)
    const { text, ...model } = await answeringModel()
    const settings = smallSettings('answering', { steps: 2, alarms: 'off' })
    const source = T.taskList('train.jsonl', rows(6, 1))
    const run = await T.defineRun(
      T.grpoParts(settings, { model: { ...model, text }, env: (tasks) => T.GSM8KEnv({ source, ...tasks }) }),
      { memory: 'ignore' },
    )
    const events = replay(run, { store: T.runFolder(path('replayed')), batch: '2' })
    await expect(events.next()).rejects.toThrow(/inputs of the run have changed.*rows of train.jsonl/)
  })
})

describe('a supervised run that is resumed', () => {
  const chat = (i: number) => History([message('user', `${i} + 1 =`), message('assistant', String(i + 1))])
  const sft = async (first: number, heldOut: number, changes: 'refuse' | 'accept', steps: number) => {
    const model = await smallModel()
    const batch = T.chatBatch(model.text)
    const part = (name: string, from: number) => ({
      name,
      rows: [0, 1, 2, 3].map((i) => chat(from + i)),
      size: 2,
      batch,
    })
    const data = T.rowBatches({ ...part('sums', first), key: T.keyFromSeed(3) })
    const optimizer = T.adamW({ learningRate: 1e-2 })
    const learner = T.localLearner({ model, loss: T.SFTLoss(), optimizer, key: T.keyFromSeed(1) })
    const loss = T.lossEvaluator({ data: T.rowBatches(part('held out', heldOut)), learner, score: 'loss' })
    const events: T.RunEvent[] = []
    const run = T.defineRun({ data, learner, evaluate: [loss] })
    for await (const event of T.train(run, { steps, store: T.runFolder(path('sft'), { changes }) })) events.push(event)
    return alarmsOf(events).map(({ message }) => message)
  }

  it('is refused with other rows for training or evaluation, unless changes are accepted', async () => {
    await sft(0, 7, 'refuse', 1)
    await expect(sft(1, 7, 'refuse', 2)).rejects.toThrow(/data\.rowsDigest was .*--accept-changes/)
    await expect(sft(0, 8, 'refuse', 2)).rejects.toThrow(/have changed since its last session: rows of held out\. /)
    expect(await sft(1, 8, 'accept', 2)).toEqual([expect.stringContaining('rows of sums; rows of held out')])
  })
})
