/** What `examples/kubernetes/trunkline.yaml` says of this program, without a cluster. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { loadSettings } from '../../config/load.js';

interface Probe {
  httpGet: { path: string; port: string };
}
interface Container {
  env: { name: string; value?: string; valueFrom?: { fieldRef: { fieldPath: string } } }[];
  ports: { name: string; containerPort: number }[];
  startupProbe: Probe;
  readinessProbe: Probe;
  livenessProbe: Probe;
  lifecycle: { preStop: { exec: { command: string[] } } };
}
interface Manifest {
  kind: string;
  data: Record<string, string>;
  stringData: Record<string, string>;
  spec: {
    selector: unknown;
    template: {
      metadata: { labels: unknown };
      spec: { hostNetwork: boolean; terminationGracePeriodSeconds: number; containers: [Container] };
    };
  };
}

const file = path.resolve(import.meta.dirname, '../../examples/kubernetes/trunkline.yaml');
const manifests = parseAllDocuments(readFileSync(file, 'utf8')).map((document) => {
  expect(document.errors).toEqual([]);
  return document.toJS() as Manifest;
});
const of = (kind: string) => manifests.find((manifest) => manifest.kind === kind) as Manifest;
const { labels } = of('StatefulSet').spec.template.metadata;
const pod = of('StatefulSet').spec.template.spec;
const [container] = pod.containers;
const given: Record<string, string> = { 'metadata.name': 'trunkline-0', 'status.hostIP': '10.0.0.11' };

const settings = loadSettings({
  env: {
    ...of('ConfigMap').data,
    ...of('Secret').stringData,
    TRUNKLINE_SECRETS_KEY: 'k'.repeat(64),
    TRUNKLINE_BOOTSTRAP_KEY: `trunkline_live_${'k'.repeat(32)}`,
    TRUNKLINE_METRICS_TOKEN: 'm'.repeat(32),
    ...Object.fromEntries(
      container.env.map(({ name, value, valueFrom }) => [
        name,
        value ?? given[valueFrom?.fieldRef.fieldPath ?? ''] ?? '',
      ]),
    ),
  },
});

it('its settings are ours, and make a node', () => {
  expect(settings).toMatchObject({
    ...{ nodeName: 'trunkline-0', sipHost: '10.0.0.11', httpHost: '10.0.0.11' },
    ...{ rtpPorts: { from: 10_000, to: 19_999 }, databaseUrl: { kind: 'postgres' } },
  });
  expect(settings.redisUrl).toContain('redis.example.com');
});

it('its ports and probes are those of the program, on the network of the machine', () => {
  const port = (name: string) => container.ports.find((each) => each.name === name)?.containerPort;
  expect([port('http'), port('sip-udp'), port('sip-tcp')]).toEqual([
    settings.httpPort,
    settings.sipPort,
    settings.sipPort,
  ]);
  expect(container.readinessProbe.httpGet).toEqual({ path: '/readyz', port: 'http' });
  for (const probe of [container.startupProbe, container.livenessProbe])
    expect(probe.httpGet).toEqual({ path: '/healthz', port: 'http' });
  expect(pod.hostNetwork).toBe(true);
});

it('calls have their whole grace before the pod is killed', () => {
  const pauseSec = Number(container.lifecycle.preStop.exec.command[1]);
  const neededSec = pauseSec + settings.shutdownNoticeSec + settings.shutdownGraceSec;
  expect(pod.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(neededSec + 15);
});

it('set, budget and service mean the same pods', () => {
  for (const kind of ['StatefulSet', 'PodDisruptionBudget'])
    expect(of(kind).spec.selector).toEqual({ matchLabels: labels });
  expect(of('Service').spec.selector).toEqual(labels);
});
