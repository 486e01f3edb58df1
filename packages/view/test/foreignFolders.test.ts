/** Run folders from elsewhere: links, pipes, large groups and large bodies. */
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { liveTimers } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import { beforeEach, describe, expect, it } from 'vitest'
import { makePipe } from '../../../test/kit/pipes.js'
import { useTemporaryFolder } from '../../../test/kit/runs.js'
import { writeRun } from '../../../test/kit/writtenRun.js'
import { viewApp } from '../src/app.js'
import { eventHub } from '../src/events.js'
import type { RolloutAnswer, RunsAnswer } from '../src/protocol.js'
import { exportedPage } from '../src/server.js'

const path = useTemporaryFolder()
const ORIGIN = 'http://127.0.0.1:7788'

const openApp = (folder: string) => {
  const { fetch } = viewApp({
    ...{ files: liveFiles, folders: [path(folder)], page: {}, version: 'test', events: eventHub(liveTimers) },
  })
  return (address: string, init: RequestInit = {}): Promise<Response> => fetch(new Request(`${ORIGIN}${address}`, init))
}

const put = (body: string | ReadableStream<Uint8Array>): RequestInit & { duplex: 'half' } => ({
  ...{ method: 'PUT', body, duplex: 'half', headers: { 'content-type': 'application/json', origin: ORIGIN } },
})

/** Appends rollouts of one group to a run, with a text of a kilobyte each. */
const appendGroup = (folder: string, count: number): void => {
  const line = (i: number): string =>
    JSON.stringify({
      ...{ step: 2, trajectoryId: `m${i}`, turn: 0, groupId: 'large', query: 'q'.repeat(1000), answer: null },
      ...{ tokens: ['a'], logProbs: [-1], reward: i, advantage: 0, stopReason: 'stop', policyVersion: 0 },
    })
  appendFileSync(path(`${folder}/trajectories.jsonl`), Array.from({ length: count }, (_, i) => `${line(i)}\n`).join(''))
}

beforeEach(() => {
  for (const folder of ['runs', 'outside']) rmSync(path(folder), { recursive: true, force: true })
  writeRun(path('runs/good'), { learningRate: 0.1, reward: 0.25 })
  writeRun(path('runs/odd'), { learningRate: 0.1, reward: 0.25 })
  mkdirSync(path('outside'))
})

describe('the viewer', () => {
  it('writes no index through a link', async () => {
    appendGroup('runs/odd', 2000) // enough for an index
    symlinkSync(path('outside'), path('runs/odd/.view'))
    expect((await openApp('runs')('/api/runs/odd/rollouts')).status).toBe(200)
    expect(readdirSync(path('outside'))).toEqual([])
    appendGroup('runs/good', 2000)
    expect((await openApp('runs')('/api/runs/good/rollouts')).status).toBe(200)
    expect(existsSync(path('runs/good/.view/rollouts.json'))).toBe(true)
  })

  it.each(['note.json', 'annotations.jsonl'])('neither reads nor writes %s through a link', async (name) => {
    writeFileSync(path('outside/file'), '{"note":"secret"}')
    symlinkSync(path('outside/file'), path(`runs/odd/${name}`))
    const send = openApp('runs')
    expect(await (await send('/api/runs')).text()).not.toContain('secret')
    const note = await send('/api/runs/odd/note', put('{"note":"new"}'))
    const annotation = await send('/api/runs/odd/rollouts/1-t0/annotation', put('{"labels":[],"comment":"new"}'))
    expect([note.status, annotation.status]).toContain(500)
    expect(readFileSync(path('outside/file'), 'utf8')).toBe('{"note":"secret"}')
  })

  const NAMES = ['config.json', 'metrics.jsonl', 'trajectories.jsonl', 'machine.json', 'summary.json', 'note.json']
  it.each([...NAMES, 'annotations.jsonl', 'run.lock', 'checkpoints'])(
    'answers for the other runs if %s of one is a pipe or a link to a device',
    async (name) => {
      for (const make of [makePipe, (place: string) => symlinkSync('/dev/zero', place)]) {
        rmSync(path(`runs/odd/${name}`), { force: true })
        make(path(`runs/odd/${name}`))
        const send = openApp('runs')
        const { runs } = (await (await send('/api/runs')).json()) as RunsAnswer
        expect(runs.map(({ id }) => id)).toContain('good')
        for (const part of ['', '/metrics', '/phases', '/rollouts', '/rollouts/1-t0', '/export?format=sft'])
          expect([200, 400, 404, 500]).toContain((await send(`/api/runs/odd${part}`)).status)
        const folders = [path('runs')]
        expect(await exportedPage({ files: liveFiles, timers: liveTimers, folders })).toContain('good')
      }
    },
  )

  it('names the reason for which a run cannot be read in its note', async () => {
    writeFileSync(path('runs/odd/metrics.jsonl'), 'not JSON\n')
    const { runs } = (await (await openApp('runs')('/api/runs')).json()) as RunsAnswer
    expect(runs.find(({ id }) => id === 'odd')?.note).toMatch(/^This run cannot be read: .*not valid JSON/)
    expect(runs.find(({ id }) => id === 'good')?.note).toBe('')
  })

  it('refuses a body above its limit before the body has arrived', async () => {
    for (const address of ['evidence', 'runs/good/note', 'runs/good/rollouts/1-t0/annotation']) {
      let sent = 0
      const endless = new ReadableStream<Uint8Array>({
        pull: (controller) => {
          sent += 2 ** 16
          controller.enqueue(new Uint8Array(2 ** 16).fill(32))
        },
      })
      expect((await openApp('runs')(`/api/${address}`, put(endless))).status).toBe(413)
      expect(sent).toBeLessThan(2_000_000)
    }
    const long = JSON.stringify({ note: 'x'.repeat(260_000) })
    expect((await openApp('runs')('/api/runs/good/note', put(long))).status).toBe(400) // the schema's limit
    expect((await openApp('runs')('/api/runs/good/note', put(long + ' '.repeat(4000)))).status).toBe(413)
  })

  it('returns a rollout and 15 others of its group, and the size of the group', async () => {
    appendGroup('runs/good', 100)
    const send = openApp('runs')
    for (const own of [0, 50, 99]) {
      const { row, group, groupSize } = (await (
        await send(`/api/runs/good/rollouts/2-m${own}`)
      ).json()) as RolloutAnswer
      expect([row.id, groupSize, group.length]).toEqual([`2-m${own}`, 100, 16])
      expect(group.map(({ id }) => id)).toContain(row.id)
      expect(group.map(({ index }) => index)).toEqual(group.map(({ index }) => index).sort((a, b) => a - b))
    }
  })

  it('exports a page that grows linearly with the size of a group', async () => {
    const folders = [path('runs/good')]
    const lengths: number[] = []
    for (const more of [0, 200, 200]) {
      appendGroup('runs/good', more)
      lengths.push((await exportedPage({ files: liveFiles, timers: liveTimers, folders })).length)
    }
    const [none = 0, once = 0, twice = 0] = lengths
    expect((twice - once) / (once - none)).toBeLessThan(1.2)
  })
})
