import type { Endpoint } from '../../store/routing/endpoints.js';

type Health = Endpoint['health'];

/** Failures in a row that open the circuit. */
const failuresUntilDown = 3;
/** An endpoint that is down gets one call after this, and then one more each time. */
const retryAfterMs = 30_000;

interface Course {
  health: Health;
  failuresInRow: number;
  /** While down: the next call that may try it. */
  retryAtMs: number;
}

/**
 * What calls found out about each endpoint. Nothing is probed: health comes from real outcomes alone. An endpoint that failed several
 * times in a row is `down`, and calls with another way go round it until one of them, every half minute, finds it well again.
 */
export class EndpointHealth {
  readonly #courses = new Map<string, Course>();

  /** `save` is told of each change. */
  constructor(
    private readonly save: (endpointId: string, health: Health) => void,
    private readonly nowMs: () => number = () => performance.now(),
  ) {}

  /** May a call with another way try this one? Of an endpoint that is down, the one who is told yes is the probe. */
  admits(endpointId: string): boolean {
    const course = this.#courses.get(endpointId);
    if (course?.health !== 'down') return true;
    if (this.nowMs() < course.retryAtMs) return false;
    course.retryAtMs = this.nowMs() + retryAfterMs;
    return true;
  }

  /** Its agent was heard, or ended a call in good order. */
  succeeded(endpointId: string): void {
    const course = this.#course(endpointId);
    course.failuresInRow = 0;
    this.#change(endpointId, course, 'healthy');
  }

  failed(endpointId: string): void {
    const course = this.#course(endpointId);
    course.failuresInRow += 1;
    const down = course.failuresInRow >= failuresUntilDown;
    if (down) course.retryAtMs = this.nowMs() + retryAfterMs;
    this.#change(endpointId, course, down ? 'down' : 'degraded');
  }

  #course(endpointId: string): Course {
    const known = this.#courses.get(endpointId);
    if (known !== undefined) return known;
    const course: Course = { health: 'unknown', failuresInRow: 0, retryAtMs: 0 };
    this.#courses.set(endpointId, course);
    return course;
  }

  #change(endpointId: string, course: Course, health: Health): void {
    if (course.health === health) return;
    course.health = health;
    this.save(endpointId, health);
  }
}
