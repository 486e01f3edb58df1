/** Watches the steps of a run and holds the batches that an alarm may need. */
import { type Alarm, type AlarmLimits, suspectSteps, watchStep, watchSteps } from '../metrics/alarms.js'
import type { StepRecord } from '../metrics/records.js'
import type { KeptBatch } from '../store/batchFolder.js'

/** Alarms with the batch of the step in which their trouble began. */
export interface RaisedAlarms {
  readonly alarms: readonly Alarm[]
  readonly batch: KeptBatch
}

export interface AlarmWatch {
  /**
   * Returns the alarms of a step with their batches. Calls `batch` only if an alarm may need it.
   */
  readonly see: (record: StepRecord, batch: () => KeptBatch) => readonly RaisedAlarms[]
}

/**
 * Makes a watch that continues after the steps in `before`.
 *
 * An alarm that needs several bad steps in a row is raised at the last one, with the batch of the
 * first. If that batch is no longer held (the trouble began in an earlier session, or 20 steps ago
 * for `reward-stuck`), the batch of the raising step is saved instead.
 *
 * Cost     holds at most five batches: the longest such row of bad steps.
 */
export const alarmWatch = (limits: AlarmLimits, before: readonly StepRecord[]): AlarmWatch => {
  let { state } = watchSteps(before, limits)
  const held = new Map<number, KeptBatch>()
  return {
    see: (record, batch) => {
      const next = watchStep(state, record, limits)
      state = next.state
      const suspects = suspectSteps(state, record.step)
      if (suspects.includes(record.step) || next.alarms.length > 0) held.set(record.step, batch())
      const raised = new Map<number, Alarm[]>()
      for (const alarm of next.alarms) {
        const first = held.has(alarm.since) ? alarm.since : record.step
        raised.set(first, [...(raised.get(first) ?? []), alarm])
      }
      const reported = [...raised].map(([first, alarms]) => ({ alarms, batch: held.get(first)! })) // each is held
      for (const step of [...held.keys()]) if (!suspects.includes(step)) held.delete(step)
      return reported
    },
  }
}
