import { describe, expect, it } from 'vitest'
import { condition } from '../src/condition.js'

describe('condition', () => {
  it('ends all waits at a notification, and none that begin after it', async () => {
    const changed = condition()
    const ended: string[] = []
    const wait = (name: string) => changed.wait().then(() => ended.push(name))
    changed.notify()
    const [first, second] = [wait('first'), wait('second')]
    await Promise.resolve()
    expect(ended).toEqual([])
    changed.notify()
    const third = wait('third')
    await Promise.all([first, second])
    expect(ended).toEqual(['first', 'second'])
    changed.notify()
    await third
  })

  it('wakes a loop for every change, however the notification and the check interleave', async () => {
    const changed = condition()
    let count = 0
    const loop = async (): Promise<number> => {
      while (count < 3) await changed.wait()
      return count
    }
    const done = loop()
    for (let i = 0; i < 3; i++) {
      await Promise.resolve()
      count++
      changed.notify()
    }
    expect(await done).toBe(3)
  })
})
