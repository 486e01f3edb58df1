import { describe, expect, it } from 'vitest'
import { type PlayedTask, sampledGroups } from '../../../src/collectors/overlap/sampledGroups.js'

/** Groups of a source whose tasks end by `played`, and the log of what happened to them. */
const world = () => {
  const ends = new Map<number, (outcome: PlayedTask<string>) => void>()
  const log: string[] = []
  const source = {
    play: (task: number) => ({
      outcome: new Promise<PlayedTask<string>>((resolve) => ends.set(task, resolve)),
      cancel: () => ends.get(task)!({ _tag: 'Cancelled' }),
    }),
    discard: (group: string) => log.push(`discard ${group}`),
  }
  const groups = sampledGroups(source, {
    onBeforeEnd: () => log.push(`before ${groups.isPlaying()}`),
    onEnd: (task, { _tag }) => log.push(`${_tag} ${task} ${groups.isPlaying()}`),
  })
  const played = (task: number): void =>
    ends.get(task)!({ _tag: 'Played', group: `g${task}`, oldest: 0, signal: 'yes' })
  return { groups, log, played }
}

describe('sampledGroups', () => {
  it('keeps complete groups until they are taken or discarded, and frees each once', async () => {
    const { groups, log, played } = world()
    for (const task of [0, 1, 2]) groups.play(task)
    for (const task of [0, 1, 2]) played(task)
    await groups.close().then(() => log.push('closed'))
    expect(log.filter((line) => line.startsWith('discard'))).toEqual(['discard g0', 'discard g1', 'discard g2'])
    expect(log.at(-1)).toBe('closed')

    const other = world()
    other.groups.play(7)
    other.played(7)
    await Promise.resolve().then(() => Promise.resolve())
    expect(other.groups.take(7)).toBe('g7')
    other.groups.discard(7)
    await other.groups.close()
    expect(other.log.filter((line) => line.startsWith('discard'))).toEqual([])
  })

  it('reports an end after the task has left play, and before it while it was in play', async () => {
    const { groups, log, played } = world()
    groups.play(0)
    groups.play(1)
    played(0)
    groups.cancel(1)
    await groups.close()
    expect(log.slice(0, 4)).toEqual(['before true', 'Played 0 true', 'before true', 'Cancelled 1 false'])
  })
})
