import { orThrow } from '@tandem-rl/base'
import { requireLeft } from '@tandem-rl/testing'
import type * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { countingMLGym } from '../../../../test/kit/mlgym.js'
import type { MLGym, MLGymFailure } from '../../src/mlgym/session.js'
import { type MLGymPlace, mlgymSessions } from '../../src/mlgym/sessions.js'

const failureOf = <T>(result: E.Either<MLGymFailure, T>): MLGymFailure => requireLeft(result, 'MLGymFailure')

const place = (id: string, ...commands: readonly string[]): MLGymPlace => ({
  id,
  request: { task: 'a', maxSteps: 10, seed: 0 },
  commands,
})

describe('mlgymSessions', () => {
  it('goes on in the session that stands at a place, and runs its commands again where none does', async () => {
    const mlgym = countingMLGym()
    const sessions = mlgymSessions({ mlgym })
    orThrow(await sessions.open(place('x')))
    expect(orThrow(await sessions.step(place('x'), 'a')).observation).toBe('$ a')
    expect(orThrow(await sessions.step(place('x', 'a'), 'b')).observation).toBe('a$ b')
    expect(mlgym.counts()).toEqual({ opened: 1, alive: 1, run: 2 })
    // Another way on from the first place: its session has gone on, so that another one is opened.
    expect(orThrow(await sessions.step(place('x', 'a'), 'c')).observation).toBe('a$ c')
    expect(mlgym.counts()).toEqual({ opened: 2, alive: 2, run: 4 })
    expect(orThrow(await sessions.step(place('x', 'a', 'b'), 'd')).observation).toBe('a b$ d')
    expect(mlgym.counts()).toEqual({ opened: 2, alive: 2, run: 5 })
    await sessions.close()
    expect([mlgym.counts().alive, sessions.alive()]).toEqual([0, 0])
  })

  it('keeps no more containers than it may, the longest unused end first, and two at one place are one', async () => {
    const mlgym = countingMLGym()
    const sessions = mlgymSessions({ mlgym, maxSessions: 2 })
    for (const id of ['x', 'y', 'z']) orThrow(await sessions.open(place(id)))
    expect(mlgym.counts()).toEqual({ opened: 3, alive: 2, run: 0 })
    orThrow(await sessions.step(place('x'), 'a'))
    expect(mlgym.counts().alive).toBe(2)
    for (let i = 0; i < 3; i++) orThrow(await sessions.step(place('x'), 'a')) // leads to the same place
    expect(mlgym.counts().alive).toBe(1)
    await sessions.close()
    expect(mlgym.counts().alive).toBe(0)
  })

  it('many episodes at a time wait for places, and leave nothing behind', async () => {
    const mlgym = countingMLGym()
    let most = 0
    const watched: MLGym = {
      open: (request) => async () => {
        const opened = await mlgym.open(request)()
        most = Math.max(most, mlgym.counts().alive)
        return opened
      },
    }
    const sessions = mlgymSessions({ mlgym: watched, maxSessions: 3 })
    await Promise.all(
      Array.from({ length: 40 }, async (_, i) => {
        orThrow(await sessions.open(place(`${i}`)))
        expect(orThrow(await sessions.step(place(`${i}`), 'a')).observation).toBe('$ a')
        orThrow(await sessions.step(place(`${i}`, 'a'), 'submit'))
      }),
    )
    expect(most).toBeLessThanOrEqual(3)
    await sessions.close()
    expect(mlgym.counts().alive).toBe(0)
  })

  it('a session ends with its episode, and with a command that fails', async () => {
    const mlgym = countingMLGym()
    const sessions = mlgymSessions({ mlgym })
    orThrow(await sessions.open(place('x')))
    expect(orThrow(await sessions.step(place('x'), 'submit')).done).toBe(true)
    expect(failureOf(await sessions.step(place('y'), 'crash')).reason).toBe('the container is gone')
    expect(failureOf(await sessions.step(place('y', 'crash'), 'a')).reason).toBe('the container is gone')
    expect(failureOf(await sessions.step(place('y', 'submit'), 'a')).reason).toBe(
      "'submit', run again, ended the episode: $ submit",
    )
    expect(mlgym.counts().alive).toBe(0)
  })

  it('who does not wait any more gets no place', async () => {
    const mlgym = countingMLGym()
    const sessions = mlgymSessions({ mlgym })
    expect(failureOf(await sessions.open(place('x'), AbortSignal.abort()))).toMatchObject({
      kind: 'infrastructure',
      reason: "the resource 'MLGym': the request was cancelled",
    })
    expect(mlgym.counts().opened).toBe(0)
  })

  it('calls off a start when it is closed, and leaves no container behind', async () => {
    const mlgym = countingMLGym()
    const sessions = mlgymSessions({ mlgym })
    const late = sessions.open(place('x'))
    await sessions.close()
    expect(failureOf(await late).reason).toBe("the resource 'MLGym': its start was called off")
    expect(mlgym.counts().alive).toBe(0)
  })
})
