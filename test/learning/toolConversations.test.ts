/**
 * A thousand conversations at the same time, each with two calls of Python in the sandbox, leave no
 * process, file, pipe or timer.
 */
import { expect, it } from 'vitest'
import { useEngine } from '../kit/engine.js'
import { pythonConversations } from '../kit/pythonConversations.js'
import { describeWithPython } from '../kit/sandboxes.js'

useEngine()

describeWithPython('1,000 conversations with Python', () => {
  it('are told what they computed, and leave nothing behind', async () => {
    const { told, before, after } = await pythonConversations(1000)
    expect(told).toEqual(Array.from({ length: 1000 }, (_, i) => `${i * i} ${i}`))
    await expect.poll(after).toEqual(before) // Node closes pipes in its own time
    console.log('before and after:', before)
  })
})
