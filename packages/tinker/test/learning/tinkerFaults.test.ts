/** 200 random schedules of faults between client and server: no step is lost or done twice. */
import { describe, expect, it } from 'vitest'
import { useEngine } from '../../../../test/kit/engine.js'
import { faultyTinker, forgetfulTinker } from '../../../../test/kit/tinkerFaults.js'

useEngine()

const SCHEDULES = process.env.LEARNING === 'short' ? 40 : 200

describe('the Tinker client behind faults', () => {
  it(`carries every step of ${SCHEDULES} schedules out once`, async () => {
    const faulty = await faultyTinker()
    try {
      const expected = await faulty.steps(null, 2)
      for (let schedule = 1; schedule <= SCHEDULES; schedule++)
        expect(await faulty.steps(schedule, 2), `schedule ${schedule}`).toEqual(expected)
      expect(faulty.client.counts().repeated).toBeGreaterThan(SCHEDULES)
    } finally {
      await faulty.close()
    }
  }, 600_000)

  it(`does no step twice in ${SCHEDULES} schedules on a server that does not recognize repeated requests`, async () => {
    const faulty = await forgetfulTinker()
    try {
      const expected = await faulty.logProbs(null, 2)
      const before = faulty.attempts()
      for (let schedule = 1; schedule <= SCHEDULES; schedule++)
        expect(await faulty.logProbs(schedule, 2), `schedule ${schedule}`).toEqual(expected)
      expect(faulty.attempts() - before).toBeGreaterThan(3.5 * SCHEDULES) // 3 without faults
    } finally {
      await faulty.close()
    }
  }, 900_000)
})
