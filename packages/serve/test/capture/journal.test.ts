/**
 * The file of captured calls: what is read back is what was written, also after a write that was
 * cut off.
 */
import { appendFileSync, existsSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { fileFailure } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { type CaptureRecord, recordLine } from '@tandem-rl/text'
import fc from 'fast-check'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { anySession } from '../../../../test/kit/capturedCalls.js'
import { leftOf, rightOf } from '../../../../test/kit/results.js'
import { useTemporaryFolder } from '../../../../test/kit/runs.js'
import { openJournal } from '../../src/capture/journal.js'

const path = useTemporaryFolder()

const { id, group, metadata, createdAt } = { id: 's', group: 'g', metadata: { n: 1 }, createdAt: 5 }
const begin: CaptureRecord = { type: 'session', session: { id, group, metadata, createdAt } }

const isWhole = (line: string): boolean => {
  try {
    return line !== '' && JSON.parse(line) !== undefined
  } catch {
    return false
  }
}

let files = 0
const fresh = (): string => path(`calls-${files++}.jsonl`)

describe('a journal', () => {
  it('is readable by this user alone', async () => {
    const file = fresh()
    const { journal } = await rightOf(openJournal(file))
    await journal.append(begin)
    await rightOf(journal.close)
    expect(statSync(file).mode & 0o777).toBe(0o600)
  })

  it('gives back what was written, and after a cut in any place all whole lines', async () => {
    await fc.assert(
      fc.asyncProperty(anySession, fc.double({ min: 0, max: 1, noNaN: true }), async (session, share) => {
        const file = fresh()
        const { journal } = await rightOf(openJournal(file))
        await journal.append(begin)
        for (const call of session.calls) await journal.append({ type: 'call', call })
        await rightOf(journal.close)
        const whole = await rightOf(openJournal(file))
        await rightOf(whole.journal.close)
        expect(whole.sessions).toEqual([{ ...begin.session, calls: session.calls, reward: null, end: null }])
        const { size } = statSync(file)
        const cut = Math.floor(share * size)
        truncateSync(file, cut)
        const lines = readFileSync(file, 'utf8').split('\n').filter(isWhole).length
        const again = await rightOf(openJournal(file))
        expect(again.sessions.flatMap(({ calls }) => calls)).toEqual(session.calls.slice(0, Math.max(0, lines - 1)))
        if (lines === 0) await again.journal.append(begin)
        await again.journal.append({ type: 'reward', session: id, reward: { total: 1, parts: {} } })
        await rightOf(again.journal.close)
        expect((await rightOf(openJournal(file))).sessions[0]!.reward!.total).toBe(1)
      }),
      { numRuns: 20 },
    )
  })

  it('writes later what it could not write, and leaves no half of a line', async () => {
    const file = fresh()
    let isFull = false
    const full = fileFailure('append to', file, { code: 'ENOSPC', reason: 'the disk is full' })
    const disk = {
      ...liveFiles,
      append: (name: string, text: string | Uint8Array) => {
        if (!isFull) return liveFiles.append(name, text)
        appendFileSync(name, text.slice(0, 7))
        return TE.left(full)
      },
    }
    const { journal } = await rightOf(openJournal(file, disk))
    await journal.append(begin)
    isFull = true
    await journal.append({ type: 'dropped', session: id })
    expect(journal.problem()).toContain('the disk is full; 1 records wait')
    expect(await leftOf(journal.flush)).toEqual(full)
    isFull = false
    await rightOf(journal.flush)
    expect(readFileSync(file, 'utf8')).toBe(recordLine(begin) + recordLine({ type: 'dropped', session: id }))
    expect(journal.problem()).toBeNull()
  })

  it.each([
    ['a bad line before the last', `{"type":"x"}\n${recordLine(begin)}`, 'line 1'],
    ['a bad last line that is whole', `${recordLine(begin)}nonsense\n`, 'line 2'],
    ['a call of no session', recordLine({ type: 'dropped', session: 'other' }), "no session 'other'"],
    ['a session that begins twice', recordLine(begin) + recordLine(begin), 'begins again'],
  ])('refuses %s, and leaves the file as it is', async (_, text, reason) => {
    const file = fresh()
    writeFileSync(file, text)
    expect(await leftOf(openJournal(file))).toMatchObject({ reason: expect.stringContaining(reason) })
    expect(readFileSync(file, 'utf8')).toBe(text)
    expect(existsSync(`${file}.lock`)).toBe(false)
  })
})
