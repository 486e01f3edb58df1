import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { describe as sentence } from '@tandem-rl/base'
import { liveDigest } from '@tandem-rl/base/host'
import { liveFiles as files } from '@tandem-rl/host'
import fc from 'fast-check'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import {
  checkLog,
  createRun,
  type LogMark,
  openLog,
  openRun,
  type RunConfig,
  readMetrics,
  readRunTrajectories,
  writeConfig,
} from '../../src/run/store/runFolder.js'
import { leftOf, rightOf } from '../kit/results.js'
import { contentsOf, useTemporaryFolder } from '../kit/runs.js'

const path = useTemporaryFolder()
const config: RunConfig = { format: 2, recipe: null, settings: { seed: 1 }, run: { policy: 'one' } }

let made = 0
/** A path that nothing uses yet. */
const fresh = (): string => path(`run${made++}`)

const newRun = (folder = fresh()) => rightOf(createRun(files, folder, config))

describe('createRun', () => {
  it('makes the folder, with its parents, and stores what the run is', async () => {
    const folder = `${fresh()}/deep/down`
    const paths = await newRun(folder)
    expect(await rightOf(openRun(files, folder))).toEqual({ paths, config })
  })

  it('refuses a folder with a run, explains how to resume, and changes nothing', async () => {
    const { folder, metrics } = await newRun()
    writeFileSync(metrics, '{"type":"step"}\n')
    const before = contentsOf(folder)
    const failure = await leftOf(createRun(files, folder, { ...config, settings: { seed: 2 } }))
    expect(sentence(failure)).toContain(folder)
    expect(failure.reason).toMatch(/--resume.*--out/)
    expect(contentsOf(folder)).toEqual(before)
  })

  it.each(['metrics.jsonl', 'trajectories.jsonl', 'summary.json', 'report.html', 'checkpoints/step-000005/state.json'])(
    'refuses a folder that has a %s of something else: it would be overwritten or taken for its own',
    async (file) => {
      const folder = fresh()
      mkdirSync(`${folder}/checkpoints/step-000005`, { recursive: true })
      writeFileSync(`${folder}/${file}`, 'precious')
      if (!file.startsWith('checkpoints')) await rightOf(files.remove(`${folder}/checkpoints`))
      expect(sentence(await leftOf(createRun(files, folder, config)))).toContain(folder)
      expect(readFileSync(`${folder}/${file}`, 'utf8')).toBe('precious')
    },
  )

  it('names the path if a file is in the way', async () => {
    const file = fresh()
    writeFileSync(file, '')
    expect(sentence(await leftOf(createRun(files, `${file}/run`, config)))).toContain(file)
  })
})

describe('openRun', () => {
  it('reports an empty or missing folder', async () => {
    const folder = fresh()
    expect(sentence(await leftOf(openRun(files, folder)))).toBe(
      `${folder}: there is no run in this folder (no config.json)`,
    )
  })

  it.each([
    ['cut off', '{'],
    ['empty', ''],
    ['without fields', '{}'],
    ['null', 'null'],
    ['out of range', JSON.stringify({ ...config, format: 1 })],
  ])('names the folder and the file if config.json is %s', async (_, text) => {
    const { folder, config: file } = await newRun()
    writeFileSync(file, text)
    const told = sentence(await leftOf(openRun(files, folder)))
    expect(told).toContain(folder)
    expect(told).toContain('config.json')
  })

  it('reads what was written last', async () => {
    const paths = await newRun()
    await rightOf(writeConfig(files, paths, { ...config, settings: { steps: 99 } }))
    expect((await rightOf(openRun(files, paths.folder))).config.settings.steps).toBe(99)
  })
})

const records = fc.array(fc.dictionary(fc.string(), fc.jsonValue()), { maxLength: 4 })

/** As JSON has it: no -0. */
const asJson = (list: readonly object[]): unknown => JSON.parse(JSON.stringify(list))

/** Opens a log at a mark. */
const openedAt = (path: string, kept: LogMark | null) =>
  pipe(
    checkLog(files, path, { kept, digest: liveDigest }),
    TE.chainW((log) => openLog(files, path, log)),
  )

describe('openLog', () => {
  it('keeps records in order, and knows how long the file is', async () => {
    const law = fc.asyncProperty(fc.array(records, { maxLength: 4 }), async (parts) => {
      const paths = await newRun()
      const log = await rightOf(openedAt(paths.metrics, null))
      for (const part of parts) await rightOf(log.append(part))
      const whole = readFileSync(paths.metrics)
      expect(log.mark()).toEqual({ bytes: whole.length, digest: liveDigest(whole) })
      expect(await rightOf(readMetrics(files, paths))).toEqual(asJson(parts.flat()))
    })
    await fc.assert(law, { numRuns: 30 })
  })

  it('opened at an earlier length, continues without the later part', async () => {
    const law = fc.asyncProperty(records, records, records, async (kept, lost, next) => {
      const paths = await newRun()
      const log = await rightOf(openedAt(paths.metrics, null))
      await rightOf(log.append(kept))
      const mark = log.mark()
      await rightOf(log.append(lost))
      await rightOf((await rightOf(openedAt(paths.metrics, mark))).append(next))
      expect(await rightOf(readMetrics(files, paths))).toEqual(asJson([...kept, ...next]))
    })
    await fc.assert(law, { numRuns: 30 })
  })

  it('names a file that is shorter than it should be, and leaves it alone', async () => {
    const { metrics } = await newRun()
    writeFileSync(metrics, '{}\n')
    const failure = await leftOf(openedAt(metrics, { bytes: 100, digest: '' }))
    expect(sentence(failure)).toContain(metrics)
    expect(failure.reason).toMatch(/3 bytes.*100/)
    expect(readFileSync(metrics, 'utf8')).toBe('{}\n')
  })
})

describe('readMetrics and readTrajectories', () => {
  it('give no records if there is no file', async () => {
    const paths = await newRun()
    expect(await rightOf(readMetrics(files, paths))).toEqual([])
    expect(await rightOf(readRunTrajectories(files, paths))).toEqual([])
  })

  it('name the file and the line that is not JSON, wherever it is', async () => {
    const law = fc.asyncProperty(fc.nat(5), fc.nat(5), async (before, after) => {
      const paths = await newRun()
      const lines = [...Array<string>(before).fill('{}'), '{"step": 1, "rew', ...Array<string>(after).fill('{}')]
      writeFileSync(paths.metrics, lines.join('\n'))
      writeFileSync(paths.trajectories, lines.join('\n'))
      const where = (file: string): string => `${file}: line ${before + 1} is not JSON`
      expect(sentence(await leftOf(readMetrics(files, paths)))).toContain(where(paths.metrics))
      expect(sentence(await leftOf(readRunTrajectories(files, paths)))).toContain(where(paths.trajectories))
    })
    await fc.assert(law, { numRuns: 20 })
  })
})
