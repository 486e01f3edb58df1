import { describe, expect, it } from 'vitest'
import { checkLaws, type Law, require } from '../src/law.js'

describe('checkLaws', () => {
  it('registers every law under its name, in order, and runs none by itself', async () => {
    const ran: string[] = []
    const law = (name: string): Law => ({ name, check: () => void ran.push(name) })
    const registered: [string, () => void | Promise<void>][] = []
    checkLaws((name, check) => registered.push([name, check]), [law('first'), law('second')])
    expect(registered.map(([name]) => name)).toEqual(['first', 'second'])
    expect(ran).toEqual([])
    for (const [, check] of registered) await check()
    expect(ran).toEqual(['first', 'second'])
  })

  it('passes the failure of a law on to the runner', () => {
    const checks: (() => void | Promise<void>)[] = []
    const broken: Law = { name: 'broken', check: () => require(false, () => 'it does not hold') }
    checkLaws((_, check) => checks.push(check), [broken])
    expect(() => checks[0]!()).toThrow('it does not hold')
  })

  // The runner is vitest itself: these two must turn up as tests of this file.
  const seen: string[] = []
  checkLaws(it, [
    { name: 'a synchronous law runs as a test', check: () => void seen.push('now') },
    { name: 'a law that awaits runs as a test', check: async () => void seen.push(await Promise.resolve('later')) },
  ])
  it('has run both laws above', () => {
    expect(seen).toEqual(['now', 'later'])
  })
})

describe('require', () => {
  it('does nothing, and words no problem, where the condition holds', () => {
    const problem = (): string => {
      throw new Error('asked for a problem')
    }
    expect(() => require(true, problem)).not.toThrow()
  })

  it('throws the problem where it does not', () => {
    expect(() => require(false, () => 'seven is not eight')).toThrow(/^seven is not eight$/)
  })
})
