/* The peer of `selvedge bench allreduce --peers`: a sum of f32 by MPI_Allreduce over private vectors, which are written anew
 * before each sum and read after it; the collective alone is timed. It is done in place, and from one vector to another.
 *
 *   mpicc -O3 mpi.c -o allreduce && mpirun -n 2 ./allreduce BYTES SAMPLES
 *
 * Rank 0 prints percentiles of both in nanoseconds, as one JSON object. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int ascending(const void *one, const void *other) {
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

/* The smallest sample that `per_mille` of 1000 do not exceed. */
static double percentile(const double *sorted, long samples, long per_mille) {
    return sorted[(samples * per_mille + 999) / 1000 - 1];
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 3) MPI_Abort(MPI_COMM_WORLD, 2);
    size_t bytes = strtoull(argv[1], NULL, 10), count = bytes / sizeof(float), room = (bytes + 63) / 64 * 64 + 64;
    long samples = strtol(argv[2], NULL, 10);
    int batch = bytes <= 4096 ? 64 : 1;
    float *own = aligned_alloc(64, room), *apart = aligned_alloc(64, room);
    double *times = malloc(sizeof(double) * samples), medians[2], p90[2], p99[2], p999[2];
    if (samples < 1 || !own || !apart || !times) MPI_Abort(MPI_COMM_WORLD, 3);
    float expected = ranks * (ranks + 1) / 2.0f;
    for (int in_place = 0; in_place < 2; in_place++) {
        float *sum = in_place ? own : apart;
        /* One more than is kept: the first touches memory. */
        for (long sample = -1; sample < samples; sample++) {
            for (size_t at = 0; at < count; at++) own[at] = rank + 1.0f;
            MPI_Barrier(MPI_COMM_WORLD);
            double started = MPI_Wtime();
            for (int turn = 0; turn < batch; turn++) {
                if (turn && in_place)
                    for (size_t at = 0; at < count; at++) own[at] = rank + 1.0f;
                MPI_Allreduce(in_place ? MPI_IN_PLACE : own, sum, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            }
            double elapsed = MPI_Wtime() - started;
            if (sample >= 0) times[sample] = elapsed * 1e9 / batch;
            for (size_t at = 0; at < count; at++)
                if (sum[at] != expected) MPI_Abort(MPI_COMM_WORLD, 1);
        }
        qsort(times, samples, sizeof(double), ascending);
        medians[in_place] = percentile(times, samples, 500);
        p90[in_place] = percentile(times, samples, 900);
        p99[in_place] = percentile(times, samples, 990);
        p999[in_place] = percentile(times, samples, 999);
    }
    if (rank == 0)
        for (int in_place = 0; in_place < 2; in_place++)
            printf("%s{\"iterations\":%ld,\"p50_ns\":%.1f,\"p90_ns\":%.1f,\"p99_ns\":%.1f,\"p999_ns\":%.1f}%s", in_place ? "," : "[",
                   samples * batch, medians[in_place], p90[in_place], p99[in_place], p999[in_place], in_place ? "]\n" : "");
    free(own), free(apart), free(times);
    MPI_Finalize();
    return 0;
}
